//! The architecture as a test: what the house rules say is absent, is absent.

use std::fs;
use std::path::{Path, PathBuf};

/// The checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the package lies in the checkout")
}

/// The files below a folder with this suffix, sorted, as (path relative to the checkout, text).
fn files(folder: &str, suffix: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder that was just opened can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" {
                folders.push(path);
            } else if name.ends_with(suffix) {
                let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let relative =
                    path.strip_prefix(root()).expect("it lies below the checkout").to_string_lossy().into_owned();
                found.push((relative, text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "there is no {suffix} file below {folder}");
    found
}

/// Lines of code: comments and the tests at the bottom of a file left out.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..tests].lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Fails with every line of `host/src` that names one of `words` outside the places where it may.
fn only_in(words: &[&str], places: &[&str], remedy: &str) {
    let mut found = Vec::new();
    for (path, text) in files("host/src", ".rs") {
        if places.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        for (number, line) in code(&text) {
            if words.iter().any(|word| names(line, word)) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{remedy}\n{}", found.join("\n"));
}

/// Whether a line has a word that no longer word begins with.
fn names(line: &str, word: &str) -> bool {
    let goes_on = |rest: &str| word.ends_with(char::is_alphanumeric) && rest.starts_with(char::is_alphanumeric);
    line.match_indices(word).any(|(at, _)| !goes_on(&line[at + word.len()..]))
}

#[test]
fn wasmtime_is_known_only_in_the_sandbox() {
    only_in(
        &["wasmtime::", "wit_component::"],
        &["host/src/wasm/", "host/src/cli/build.rs"],
        "wasmtime belongs into host/src/wasm",
    );
}

#[test]
fn sqlite_is_known_only_in_the_state() {
    only_in(&["rusqlite"], &["host/src/state/"], "SQL belongs into host/src/state");
}

#[test]
fn time_comes_only_from_the_clock() {
    let places = ["host/src/clock.rs"];
    only_in(&["SystemTime", "Instant::now", "Timestamp::now"], &places, "ask crate::clock for the time");
}

#[test]
fn the_core_does_not_await() {
    // The bindings are generated; the sandbox runs their futures to the end on its own thread.
    let places = ["host/src/api/", "host/src/cli/", "host/src/wasm/bindings.rs", "host/src/checkpoint/store.rs"];
    only_in(&["async ", ".await", "tokio::"], &places, "the core is synchronous: tokio lives at the edges");
}

#[test]
fn the_sandbox_and_the_state_do_not_know_each_other() {
    let mut found = Vec::new();
    for (folder, word) in [("host/src/wasm", "state::"), ("host/src/state", "wasm::")] {
        for (path, text) in files(folder, ".rs") {
            found
                .extend(code(&text).filter(|(_, line)| line.contains(&format!("crate::{word}"))).map(|_| path.clone()));
        }
    }
    assert!(found.is_empty(), "partition.rs is where they meet, not {found:?}");
}

#[test]
fn nothing_unwraps_outside_tests() {
    let mut found = Vec::new();
    for folder in ["host/src", "guest-sdk/rust/src", "xtask/src"] {
        for (path, text) in files(folder, ".rs") {
            let is_test = path.contains("/tests") || path.ends_with("testing.rs");
            if !is_test {
                found.extend(
                    code(&text)
                        .filter(|(_, line)| line.contains(".unwrap()"))
                        .map(|(n, _)| format!("{path}:{}", n + 1)),
                );
            }
        }
    }
    assert!(found.is_empty(), "use ?, or expect with the reason why it cannot fail: {found:?}");
}

#[test]
fn every_file_says_what_it_is_for() {
    let mut silent = Vec::new();
    for folder in ["host/src", "guest-sdk/rust/src", "xtask/src", "examples", "tests/it", "tests/guests"] {
        let without = files(folder, ".rs").into_iter().filter(|(_, text)| !text.starts_with("//!"));
        silent.extend(without.map(|(path, _)| path));
    }
    assert!(silent.is_empty(), "open with a //! sentence: {silent:?}");
}

#[test]
fn nothing_is_left_over() {
    let mut found = Vec::new();
    for folder in ["host/src", "guest-sdk/rust/src", "xtask/src", "examples", "tests/it", "tests/guests"] {
        for (path, text) in files(folder, ".rs") {
            if path.ends_with("tidy.rs") {
                continue;
            }
            for word in ["todo!(", "unimplemented!(", "dbg!(", "#[ignore", "FIXME", "XXX", "TODO"] {
                if text.contains(word) {
                    found.push(format!("{path}: {word}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "finish it or delete it: {found:?}");
}

#[test]
fn tests_do_not_sleep() {
    let mut found = Vec::new();
    for (path, text) in files("tests/it", ".rs") {
        // Waiting for another process is done in one place, with a deadline.
        if !path.starts_with("tests/it/support/") && !path.ends_with("tidy.rs") && text.contains("thread::sleep") {
            found.push(path);
        }
    }
    assert!(found.is_empty(), "wait with a deadline in tests/it/support instead: {found:?}");
}

#[test]
fn every_guest_and_every_example_is_described() {
    for (folder, table) in [("tests/guests", "tests/guests/README.md"), ("examples", "examples/README.md")] {
        let readme = fs::read_to_string(root().join(table)).expect("the table is there");
        for entry in fs::read_dir(root().join(folder)).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            assert!(!path.join("Cargo.toml").exists() || readme.contains(&name), "{table} does not name {name}");
        }
    }
}

#[test]
fn every_mutant_changes_a_text_that_is_there_once() {
    let text = fs::read_to_string(root().join("tests/mutants.toml")).expect("the mutants are listed");
    let mutants: toml::Table = text.parse().expect("the list is TOML");
    let mutants = mutants["mutant"].as_array().expect("mutants are a list");
    assert!(mutants.len() > 5, "{} mutants", mutants.len());
    for edit in mutants.iter().flat_map(|mutant| mutant["edit"].as_array().expect("edits are a list")) {
        let said = |name: &str| edit[name].as_str().unwrap_or_else(|| panic!("{edit} has no {name}"));
        let (file, find) = (said("file"), said("find"));
        let text = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(text.matches(find).count(), 1, "tests/mutants.toml changes `{find}` in {file}");
    }
}
