//! Recurses without end for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;
use std::hint::black_box;

struct StackOverflow;

impl Guest for StackOverflow {
    fn act(call: &mut Call) -> Result<()> {
        black_box(depth_below(call.count));
        Ok(())
    }
}

/// Work is left to do after the inner call, and its result is opaque, so that no compiler can turn this into a loop.
#[inline(never)]
fn depth_below(level: u64) -> u64 {
    if black_box(level) == u64::MAX { 0 } else { black_box(depth_below(level + 1)) + 1 }
}

counting::export!(StackOverflow);
