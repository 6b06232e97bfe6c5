//! Never returns for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;
use std::hint::black_box;

struct EndlessLoop;

impl Guest for EndlessLoop {
    fn act(_: &mut Call) -> Result<()> {
        loop {
            black_box(());
        }
    }
}

counting::export!(EndlessLoop);
