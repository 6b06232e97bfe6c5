//! Remembers outside its state how many calls it has seen, and emits that number for every key.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

struct Leak;

/// What a rule must not have: it makes the output of a key depend on the keys before it in the same batch.
static CALLS_SEEN: AtomicU64 = AtomicU64::new(0);

impl Guest for Leak {
    fn output(key: &str, count: u64) -> Output {
        let calls_seen = CALLS_SEEN.fetch_add(1, Ordering::Relaxed) + 1;
        Output::of(key).with("count", count).with("calls_seen", calls_seen)
    }

    fn act(_: &mut Call) -> Result<()> {
        Ok(())
    }
}

counting::export!(Leak);
