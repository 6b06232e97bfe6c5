//! Refuses the parameter `limit` when it is 0, panics when it is 13, and otherwise emits counts up to it.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;
use schemars::JsonSchema;
use serde::de::IgnoredAny;

struct Configure {
    limit: u32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The highest count that is emitted.
    limit: u32,
}

impl Rule for Configure {
    type Event<'e> = IgnoredAny;
    type State = State;
    type Output = Output;
    type Parameters = Parameters;

    fn new(Parameters { limit }: Parameters) -> Result<Self> {
        match limit {
            0 => bail!("limit is 0: it must be at least 1"),
            13 => panic!("limit is {limit}, which is unlucky"),
            _ => Ok(Configure { limit }),
        }
    }

    fn call(
        &self,
        key: &str,
        events: Events<IgnoredAny>,
        state: &mut GroupState<State>,
        out: &mut Outputs<Output>,
    ) -> Result<()> {
        let count = counting::count(&events, state)?;
        if count <= self.limit.into() { out.emit(&Output::of(key).with("count", count)) } else { Ok(()) }
    }
}

keyfold_sdk::export!(Configure);
