//! Sets a timeout ten seconds after the newest event for keys that begin with `event`, and ten seconds after the batch
//! for all others.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct EitherTimeout;

impl Guest for EitherTimeout {
    const TIMEOUT: TimeoutKind = TimeoutKind::Either;

    fn concerns(_: &str) -> bool {
        true
    }

    fn act(call: &mut Call) -> Result<()> {
        if call.key.starts_with("event") {
            call.state.set_timeout_timestamp_after(call.event_time_ms()?, "10 seconds")?;
        } else {
            call.state.set_timeout_duration("10 seconds")?;
        }
        Ok(())
    }
}

counting::export!(EitherTimeout);
