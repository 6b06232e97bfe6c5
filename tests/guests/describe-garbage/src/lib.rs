//! Describes itself with bytes that are neither JSON nor UTF-8.
#![cfg(target_arch = "wasm32")]

use columns::Guest;

struct DescribeGarbage;

impl Guest for DescribeGarbage {
    fn describe() -> Vec<u8> {
        b"\xff{name".to_vec()
    }
}

columns::export!(DescribeGarbage);
