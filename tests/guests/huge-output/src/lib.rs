//! Emits one output of 8 MiB for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct HugeOutput;

const OUTPUT_BYTES: usize = 8 << 20;

impl Guest for HugeOutput {
    fn act(call: &mut Call) -> Result<()> {
        call.out.emit(&Output::of(call.key).with("ballast", "x".repeat(OUTPUT_BYTES)))
    }
}

counting::export!(HugeOutput);
