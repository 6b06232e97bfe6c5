//! Describes itself with the map form and the append mode.
#![cfg(target_arch = "wasm32")]

use columns::Guest;

struct MapAppend;

impl Guest for MapAppend {
    fn describe() -> Vec<u8> {
        columns::describe_with_form("map", "append")
    }
}

columns::export!(MapAppend);
