//! The documents, held to the truth: commands are run, code is the code that is compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the package lies in the checkout")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The fenced blocks of a document in this language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let found = document.split(&fence).skip(1);
    found.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_commands_of_the_readme_work_one_after_another() {
    let program = Path::new(env!("CARGO_BIN_EXE_keyfold"));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = format!(
        "{}:{}",
        program.parent().expect("a program lies in a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let blocks = blocks(&read("README.md"), "sh");
    assert_eq!(blocks.len(), 1, "the README has one block of commands for a shell");
    for command in blocks[0].lines() {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder.path())
            .env("PATH", &path)
            // Compiling a rule from nothing takes a minute; other tests have done it.
            .env("CARGO_TARGET_DIR", root().join("target/test-rules"))
            .env("KEYFOLD_CACHE", root().join("target/test-cache"))
            .output()
            .expect("there is a shell");
        assert!(
            output.status.success(),
            "{command}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn the_rule_in_the_readme_is_the_one_that_the_sdk_compiles() {
    let bare = |text: &str| {
        let lines = text.lines().map(|line| line.trim_start_matches("//!").trim()).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    let compiled = bare(&read("guest-sdk/rust/src/lib.rs"));
    for block in blocks(&read("README.md"), "rust") {
        assert!(compiled.contains(&bare(&block)), "the README's rule is not in the SDK's documentation:\n{block}");
    }
}

#[test]
fn every_file_that_a_document_links_to_is_there() {
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "examples/README.md",
        "guest-sdk/README.md",
        "wit/README.md",
    ];
    let mut missing = Vec::new();
    for document in documents {
        let folder = root().join(document).parent().expect("a document lies in a folder").to_owned();
        for rest in read(document).split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            let is_file = !target.contains("://") && !target.starts_with('#');
            if is_file && !folder.join(target.split('#').next().unwrap_or_default()).exists() {
                missing.push(format!("{document}: {target}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
