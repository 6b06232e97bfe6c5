//! Describes itself with the complete mode.
#![cfg(target_arch = "wasm32")]

use columns::Guest;

struct Complete;

impl Guest for Complete {
    fn describe() -> Vec<u8> {
        columns::describe_with_form("flat-map", "complete")
    }
}

columns::export!(Complete);
