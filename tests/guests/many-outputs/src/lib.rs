//! Emits two million small outputs for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct ManyOutputs;

const OUTPUTS: u32 = 2_000_000;

impl Guest for ManyOutputs {
    fn act(call: &mut Call) -> Result<()> {
        let output = Output::of("k");
        for _ in 0..OUTPUTS {
            call.out.emit(&output)?;
        }
        Ok(())
    }
}

counting::export!(ManyOutputs);
