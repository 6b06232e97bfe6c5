//! Files of a stream, made by the fuzzer: none may harm the server, and what can be read is what was written.

#![no_main]

#[path = "../../tests/it/support/segments.rs"]
mod segments;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    segments::check(bytes, made.expect("a folder can be made").path());
});
