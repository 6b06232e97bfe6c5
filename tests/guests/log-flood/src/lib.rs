//! Writes log lines without end for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::keyfold_sdk;
use counting::prelude::*;

struct LogFlood;

impl Guest for LogFlood {
    fn act(call: &mut Call) -> Result<()> {
        loop {
            keyfold_sdk::info!("{} is still here", call.key);
        }
    }
}

counting::export!(LogFlood);
