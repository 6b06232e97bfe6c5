//! Manifests, made by the fuzzer: none may harm the server, and what is accepted means the same when it is written down.

#![no_main]

#[path = "../../tests/it/support/manifests.rs"]
mod manifests;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| manifests::check(bytes));
