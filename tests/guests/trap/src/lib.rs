//! Executes an unreachable instruction for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct Trap;

impl Guest for Trap {
    fn act(_: &mut Call) -> Result<()> {
        core::arch::wasm32::unreachable()
    }
}

counting::export!(Trap);
