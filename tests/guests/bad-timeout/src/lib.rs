//! Sets a timeout at the end of time: in processing time for keys that begin with `bad-processing`, in event time for
//! other keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct BadTimeout;

impl Guest for BadTimeout {
    const TIMEOUT: TimeoutKind = TimeoutKind::Either;

    fn act(call: &mut Call) -> Result<()> {
        if call.key.starts_with("bad-processing") {
            call.state.set_timeout_duration(i64::MAX)?;
        } else {
            call.state.set_timeout_timestamp(i64::MAX)?;
        }
        Ok(())
    }
}

counting::export!(BadTimeout);
