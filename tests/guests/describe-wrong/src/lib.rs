//! Describes itself with a timeout kind that does not exist.
#![cfg(target_arch = "wasm32")]

use columns::Guest;

struct DescribeWrong;

impl Guest for DescribeWrong {
    fn describe() -> Vec<u8> {
        columns::describe_with_timeout("sometimes")
    }
}

columns::export!(DescribeWrong);
