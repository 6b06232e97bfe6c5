//! Sets a timeout ten seconds after the batch. Keys that begin with `stateless` keep nothing but the timeout.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct ProcessingTimeout;

impl Guest for ProcessingTimeout {
    const TIMEOUT: TimeoutKind = TimeoutKind::ProcessingTime;

    fn concerns(_: &str) -> bool {
        true
    }

    fn act(call: &mut Call) -> Result<()> {
        if call.key.starts_with("stateless") {
            call.state.remove();
        }
        call.state.set_timeout_duration("10 seconds")?;
        Ok(())
    }
}

counting::export!(ProcessingTimeout);
