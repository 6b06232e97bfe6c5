//! Uploads, made by the fuzzer: none may harm the server before it is compiled, which a process of its own does.

#![no_main]

#[path = "../../tests/it/support/uploads.rs"]
mod uploads;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| uploads::check(bytes));
