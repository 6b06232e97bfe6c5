//! Sets a timeout ten seconds after the newest event, and fails in the call for it: by a trap for keys that begin with
//! `trap`, with an error for all others.
#![cfg(target_arch = "wasm32")]

use counting::keyfold_sdk;
use counting::prelude::*;

struct FailingTimeout;

impl Guest for FailingTimeout {
    const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;

    fn concerns(_: &str) -> bool {
        true
    }

    fn timed_out(key: &str) -> Result<Output> {
        if key.starts_with("trap") {
            core::arch::wasm32::unreachable()
        }
        keyfold_sdk::bail!("{key} does not want to be woken")
    }

    fn act(call: &mut Call) -> Result<()> {
        call.state.set_timeout_timestamp_after(call.event_time_ms()?, "10 seconds")?;
        Ok(())
    }
}

counting::export!(FailingTimeout);
