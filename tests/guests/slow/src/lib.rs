//! Takes two million steps for keys that begin with `slow`, and goes on normally.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;
use std::hint::black_box;

struct Slow;

const STEPS: u64 = 2_000_000;

impl Guest for Slow {
    fn concerns(key: &str) -> bool {
        key.starts_with("slow")
    }

    fn act(call: &mut Call) -> Result<()> {
        let mut sum = call.count;
        for step in 0..STEPS {
            sum = black_box(sum ^ step);
        }
        Ok(())
    }
}

counting::export!(Slow);
