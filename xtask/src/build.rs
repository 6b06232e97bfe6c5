//! `cargo xtask build`: what the tests and the demo need.

use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

const WASM: &str = "wasm32-unknown-unknown";

/// The settings of `keyfold build`, so that guests are compiled as rules are.
const PROFILE: [&str; 4] = [
    "profile.release.lto=true",
    "profile.release.codegen-units=1",
    "profile.release.panic=\"abort\"",
    "profile.release.strip=true",
];

/// Sets up.
pub fn build(workspace: &Workspace) -> Result<()> {
    install_target(workspace)?;
    // All that the tests build, in their profile: cargo chooses the features of dependencies by what is built together, and would
    // compile wasmtime once more for the program alone.
    step("Building target/debug/keyfold and the tests (minutes the first time)", || {
        step::run(workspace.command("cargo").args(["build", "--workspace", "--all-targets"]))
    })?;
    step(&format!("Building the {} guests of the tests", workspace.guests.len()), || build_guests(workspace))?;
    step("Building the examples", || build_examples(workspace))
}

fn install_target(workspace: &Workspace) -> Result<()> {
    let sysroot = step::output(workspace.command("rustc").args(["--print", "sysroot"]))?;
    if Path::new(sysroot.trim_end()).join("lib/rustlib").join(WASM).is_dir() {
        return Ok(());
    }
    step(&format!("Installing Rust's libraries for {WASM}: rustup target add {WASM}"), || {
        step::run(workspace.command("rustup").args(["target", "add", WASM]))
    })
}

/// All in one call of cargo, which then compiles what they share once.
fn build_guests(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.command("cargo");
    cargo.args(["build", "--release", "--target", WASM]);
    cargo.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
    cargo.args(workspace.guests.iter().flat_map(|guest| ["--package", &guest.package]));
    step::run(&mut cargo)?;
    let folder = workspace.target.join("guests");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for guest in &workspace.guests {
        let module = workspace.target.join(WASM).join("release").join(format!("{}.wasm", guest.library));
        let copy = folder.join(format!("{}.wasm", guest.name));
        fs::copy(&module, &copy).with_context(|| format!("cannot copy {} to {}", module.display(), copy.display()))?;
    }
    Ok(())
}

fn build_examples(workspace: &Workspace) -> Result<()> {
    let folder = workspace.root.join("examples");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name());
        }
    }
    names.sort();
    for name in names {
        let mut keyfold = Command::new(workspace.keyfold());
        step::run(keyfold.arg("build").arg(Path::new("examples").join(name)).current_dir(&workspace.root))?;
    }
    Ok(())
}
