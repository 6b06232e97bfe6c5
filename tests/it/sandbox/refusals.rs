//! Components that are refused as a whole, with a message that says what is wrong with them.

use super::assert_says;
use crate::compile_bomb::compile_bomb;
use crate::support::rules::{Setup, compiler, guest, loader};
use keyfold::description::{Form, OutputMode};
use keyfold::limits::Limits;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::component::Loader;
use serde_json::json;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MIB: u64 = 1024 * 1024;

/// Why a component cannot be loaded.
fn refusal(bytes: &[u8]) -> String {
    refusal_by(&loader(&Limits::default()), bytes)
}

fn refusal_by(loader: &Loader, bytes: &[u8]) -> String {
    match loader.load(bytes) {
        Ok(component) => panic!("the component was accepted, with {:?}", component.description()),
        Err(error) => format!("{error:#}"),
    }
}

/// A loader that finds nothing in its cache, so that it compiles, and the folder of the cache.
fn compiling_loader(limits: Limits) -> (TempDir, Loader) {
    let folder = tempfile::tempdir().expect("the folder for temporary files can be written");
    let cache = Cache::open(&folder.path().join("cache")).expect("a new folder can be used");
    (folder, Loader::new(limits, cache, compiler()).expect("wasmtime starts"))
}

#[test]
fn a_component_that_exports_something_else_is_refused_with_the_name_of_what_is_missing() {
    assert_says(&refusal(&guest("wrong-world")), &["keyfold:rule/state-function"]);
}

#[test]
fn a_component_that_imports_a_network_is_refused_with_the_name_of_the_import() {
    assert_says(&refusal(&guest("asks-for-network")), &["imports evil:net/dns@1.0.0", "nothing else"]);
}

#[test]
fn a_rule_that_describes_itself_with_garbage_is_refused() {
    assert_says(&refusal(&guest("describe-garbage")), &["the description is not the JSON object that it should be"]);
}

#[test]
fn a_rule_that_describes_itself_with_an_unknown_word_is_refused_with_that_word() {
    assert_says(&refusal(&guest("describe-wrong")), &["sometimes", "event-time"]);
}

#[test]
fn the_complete_mode_is_refused_by_name() {
    assert_says(&refusal(&guest("facts-complete")), &["output_mode is complete", "use append or update"]);
}

#[test]
fn the_map_form_goes_with_the_update_mode_alone() {
    assert_says(&refusal(&guest("facts-map-append")), &["form is map and output_mode is append", "use update"]);
    let component = loader(&Limits::default()).load(&guest("facts-map")).expect("an update mode goes with it");
    let description = component.description();
    assert_eq!((description.form, description.output_mode), (Form::Map, OutputMode::Update));
}

#[test]
fn parameters_are_refused_by_name() {
    let limits = Limits::default();
    let loader = loader(&limits);
    let component = loader.load(&guest("configure")).expect("the rule itself is right");
    let refused =
        |parameters: serde_json::Value| match loader.check_parameters(&component, parameters.to_string().as_bytes()) {
            Ok(()) => panic!("{parameters} were accepted"),
            Err(error) => error.to_string(),
        };
    assert_says(&refused(json!({ "limit": 0 })), &["refused its parameters", "limit is 0", "at least 1"]);
    assert_says(&refused(json!({ "limit": 13 })), &["limit is 13, which is unlucky"]);
    assert_says(&refused(json!({ "limit": 1, "limitt": 1 })), &["`limitt`", "expected `limit`"]);
    assert_says(&refused(json!({})), &["missing field `limit`"]);
    assert_says(&refused(json!({ "limit": "high" })), &["invalid type", "u32"]);
}

#[test]
fn parameters_that_are_accepted_reach_the_rule() {
    let setup = Setup { parameters: json!({ "limit": 2 }), ..Setup::guest("configure") };
    let mut trial = setup.open();
    assert_eq!(trial.run_keys(&["a", "b", "a"]).outputs.len(), 2);
    assert_eq!(trial.run_keys(&["a", "b"]).outputs, [r#"{"key":"b","count":2}"#]);
}

#[test]
fn what_is_not_webassembly_is_refused() {
    for bytes in [&b""[..], b"\0asm", b"\0asm\x02\0\0\0", b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01\0"] {
        assert_says(&refusal(bytes), &["not a WebAssembly file"]);
    }
    let cut = guest("no-imports");
    assert_says(&refusal(&cut[..cut.len() / 2]), &["this file is damaged"]);
}

#[test]
fn a_component_over_the_limit_is_refused_before_anything_reads_it() {
    let bytes = guest("no-imports");
    let limits = Limits { component_bytes_max: bytes.len() as u64 - 1, ..Limits::default() };
    let size = bytes.len().to_string();
    let (_folder, loader) = compiling_loader(limits);
    assert_says(&refusal_by(&loader, &bytes), &[&size, "component-bytes-max"]);
    let limits = Limits { component_bytes_max: bytes.len() as u64, ..Limits::default() };
    let (_folder, loader) = compiling_loader(limits);
    loader.load(&bytes).expect("a component may be as large as the limit");
}

/// How long a refusal may take that is due within a second, on a machine that is loaded.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn a_component_that_takes_long_to_compile_is_refused_and_the_host_goes_on() {
    let started = Instant::now();
    let (_folder, loader) = compiling_loader(Limits { compile_deadline_ms: 1000, ..Limits::default() });
    let message = refusal_by(&loader, &compile_bomb());
    assert_says(&message, &["too complex", "compile-deadline-ms"]);
    assert!(started.elapsed() < REFUSED_WITHIN, "that took {:?}", started.elapsed());
    let (_folder, loader) = compiling_loader(Limits::default());
    loader.load(&guest("no-imports")).expect("the next component is compiled as ever");
}

#[test]
fn a_component_that_takes_much_memory_to_compile_is_refused_and_the_host_goes_on() {
    let started = Instant::now();
    let (_folder, loader) = compiling_loader(Limits { compile_memory_bytes_max: 512 * MIB, ..Limits::default() });
    assert_says(&refusal_by(&loader, &compile_bomb()), &["512 MiB", "too complex", "compile-memory-bytes-max"]);
    assert!(started.elapsed() < REFUSED_WITHIN, "that took {:?}", started.elapsed());
    loader.load(&guest("no-imports")).expect("the next component is compiled as ever");
}
