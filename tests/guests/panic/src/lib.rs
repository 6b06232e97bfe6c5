//! Panics with a message for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

struct Panic;

impl Guest for Panic {
    fn act(_: &mut Call) -> Result<()> {
        panic!("the amount {} is odd", 7)
    }
}

counting::export!(Panic);
