//! Writes a state of 8 MiB for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct HugeState;

const STATE_BYTES: usize = 8 << 20;

impl Guest for HugeState {
    fn act(call: &mut Call) -> Result<()> {
        Ok(call.state.update(&State { count: call.count, ballast: "x".repeat(STATE_BYTES) })?)
    }
}

counting::export!(HugeState);
