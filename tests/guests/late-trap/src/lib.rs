//! Traps on the key after one that begins with `bad`, because of what that one left in memory.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

struct LateTrap;

/// Stands for a heap that is full or damaged: the group that is being worked on when it shows is not the one that did it,
/// and each of the two passes when it is run alone.
static DAMAGED: AtomicBool = AtomicBool::new(false);

impl Guest for LateTrap {
    fn output(key: &str, count: u64) -> Output {
        if DAMAGED.load(Ordering::Relaxed) {
            core::arch::wasm32::unreachable()
        }
        Output::of(key).with("count", count)
    }

    fn act(_: &mut Call) -> Result<()> {
        DAMAGED.store(true, Ordering::Relaxed);
        Ok(())
    }
}

counting::export!(LateTrap);
