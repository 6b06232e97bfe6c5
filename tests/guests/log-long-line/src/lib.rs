//! Writes a log line of 1 MiB for keys that begin with `bad`, and goes on normally.
#![cfg(target_arch = "wasm32")]

use counting::keyfold_sdk;
use counting::prelude::*;

struct LogLongLine;

const LINE_BYTES: usize = 1 << 20;

impl Guest for LogLongLine {
    fn act(_: &mut Call) -> Result<()> {
        keyfold_sdk::info!("{}", "x".repeat(LINE_BYTES));
        Ok(())
    }
}

counting::export!(LogLongLine);
