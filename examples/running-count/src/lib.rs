//! Counts the events of each key: the smallest rule.
//!
//! Every batch in which a key has events gives one output with the key's count so far.

use keyfold_sdk::prelude::*;
use serde::de::IgnoredAny;

/// The rule.
pub struct RunningCount;

/// The count of one key.
#[derive(Serialize)]
pub struct Count {
    key: String,
    count: u64,
}

impl Rule for RunningCount {
    type Event<'e> = IgnoredAny;
    type State = u64;
    type Output = Count;
    type Parameters = NoParameters;
    const OUTPUT_MODE: OutputMode = OutputMode::Update;

    fn new(_: NoParameters) -> Result<Self> {
        Ok(RunningCount)
    }

    fn call(
        &self,
        key: &str,
        events: Events<IgnoredAny>,
        state: &mut GroupState<u64>,
        out: &mut Outputs<Count>,
    ) -> Result<()> {
        let count = state.get_option()?.unwrap_or(0) + events.len() as u64;
        state.update(&count)?;
        out.emit(&Count { key: key.to_owned(), count })
    }
}

keyfold_sdk::export!(RunningCount);
