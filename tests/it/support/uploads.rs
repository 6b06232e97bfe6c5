//! What is claimed of uploads before anything of them is compiled, for bytes that the fuzzer or a test has made up.

use keyfold::api::component_in_form;
use keyfold::description::Description;
use keyfold::wasm::Engine;
use keyfold::wasm::compile::checked;
use std::sync::OnceLock;

/// A core module begins so, and is no longer one when it is taken.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// Whatever the bytes are: no panic, and what is accepted is what it should be.
pub fn check(bytes: &[u8]) {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Engine::for_compiling().expect("wasmtime starts"));
    if let Ok(component) = checked(engine, bytes.to_vec()) {
        assert!(!component.starts_with(MODULE), "a module has become a component");
    }
    if let Ok(description) = Description::parse(bytes) {
        assert!(!description.name.is_empty() && description.state_schema >= 1);
        assert!(description.readable_schemas.contains(&description.state_schema));
    }
    if let Some(component) = component_in_form("multipart/form-data; boundary=b", bytes) {
        assert!(component.len() <= bytes.len(), "a part is not longer than its form");
    }
    // A form around the bytes gives the bytes back, unless they end it themselves.
    if !bytes.windows(3).any(|part| part == b"--b") {
        let head = b"--b\r\nContent-Disposition: form-data; name=\"component\"\r\n\r\n";
        let form = [head, bytes, b"\r\n--b--\r\n"].concat();
        assert_eq!(component_in_form("multipart/form-data; boundary=b", &form).as_deref(), Some(bytes));
    }
}
