//! Bodies that are posted to a stream, made by the fuzzer: none may harm the server, and what is accepted are events that all can read.

#![no_main]

#[path = "../../tests/it/support/bodies.rs"]
mod bodies;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| bodies::check(bytes));
