//! Imports nothing at all, and counts normally.
#![cfg(target_arch = "wasm32")]

use columns::Guest;

struct NoImports;

impl Guest for NoImports {
    fn enter(_: usize, _: &[&str]) {}
}

columns::export!(NoImports);
