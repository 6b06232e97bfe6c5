//! Allocates until there is no memory left, and then traps, for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;
use std::hint::black_box;

struct MemoryGrowth;

/// Every block is written to, so that the host's memory is really taken.
const BLOCK_BYTES: usize = 1 << 20;

impl Guest for MemoryGrowth {
    fn act(_: &mut Call) -> Result<()> {
        loop {
            black_box(vec![1u8; BLOCK_BYTES].leak());
        }
    }
}

counting::export!(MemoryGrowth);
