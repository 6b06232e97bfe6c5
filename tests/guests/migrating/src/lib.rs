//! Counts as the other guests do, writes another state than they, and rewrites theirs. A count of so many hundreds goes wrong.
#![cfg(target_arch = "wasm32")]

use counting::keyfold_sdk::Rule;
use counting::prelude::*;
use counting::{IgnoredAny, event_time_ms};

struct Migrating;

/// Schema 2.
#[derive(Serialize, Deserialize)]
struct Events2 {
    events: u64,
    ballast: String,
}

impl Rule for Migrating {
    type Event<'e> = IgnoredAny;
    type State = Events2;
    type Output = Output;
    type Parameters = NoParameters;
    const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;
    const OUTPUT_MODE: OutputMode = OutputMode::Update;
    const STATE_SCHEMA: u32 = 2;

    fn new(_: NoParameters) -> Result<Self> {
        Ok(Migrating)
    }

    fn call(
        &self,
        key: &str,
        events: Events<IgnoredAny>,
        state: &mut GroupState<Events2>,
        out: &mut Outputs<Output>,
    ) -> Result<()> {
        if state.has_timed_out() {
            let events = state.get_option()?.map_or(0, |state| state.events);
            state.remove();
            return out.emit(&Output::of(key).with("timed_out", events).with("schema", 2));
        }
        // Keys of this kind are read and stay as they were found.
        if key.starts_with("quiet") && state.exists() {
            return state.set_timeout_timestamp_after(event_time_ms(&events)?, "10 seconds").map_err(Error::from);
        }
        let count = state.get_option()?.map_or(0, |state| state.events) + events.len() as u64;
        state.update(&Events2 { events: count, ballast: String::new() })?;
        state.set_timeout_timestamp_after(event_time_ms(&events)?, "10 seconds")?;
        out.emit(&Output::of(key).with("count", count).with("schema", 2))
    }
}

impl Migrate<Events2> for Migrating {
    fn migrate(from_schema: u32, old: OldState) -> Result<Events2> {
        if from_schema != 1 {
            bail!("schema {from_schema} is not known");
        }
        let State { count, .. } = old.decode()?;
        match count {
            100 => bail!("a count of 100 cannot be rewritten"),
            200 => core::arch::wasm32::unreachable(),
            300 => loop {
                std::hint::black_box(());
            },
            400 => panic!("a count of 400"),
            500 => Ok(Events2 { events: count, ballast: "x".repeat(2 * 1024 * 1024) }),
            _ => Ok(Events2 { events: count, ballast: String::new() }),
        }
    }
}

counting::keyfold_sdk::export!(Migrating, migration);
