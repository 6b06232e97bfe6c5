//! Sets a timeout ten seconds after the newest event. Keys that begin with `stateless` keep nothing but the timeout.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct EventTimeTimeout;

impl Guest for EventTimeTimeout {
    const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;

    fn concerns(_: &str) -> bool {
        true
    }

    fn act(call: &mut Call) -> Result<()> {
        if call.key.starts_with("stateless") {
            call.state.remove();
        }
        call.state.set_timeout_timestamp_after(call.event_time_ms()?, "10 seconds")?;
        Ok(())
    }
}

counting::export!(EventTimeTimeout);
