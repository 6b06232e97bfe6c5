//! Every example's scenarios hold, through the real component and the real host.

use crate::support::command;
use keyfold::config::Settings;
use keyfold::scenario::{Batches, Scenario, Stage};
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[test]
fn every_example_has_scenarios_and_all_hold_however_they_are_cut() {
    let mut failures = Vec::new();
    for folder in folders(&command::root().join("examples")) {
        let scenarios = toml_files(&folder.join("scenarios"));
        assert!(!scenarios.is_empty(), "{} has no scenarios: an example shows what it does", folder.display());
        let stage = stage(&folder);
        for path in scenarios {
            let scenario = Scenario::read(&path).unwrap_or_else(|error| panic!("{error:#}"));
            for batches in [Batches::Each, Batches::Together] {
                let played = scenario.play(&stage, batches);
                let mismatches = played.unwrap_or_else(|error| panic!("{}, {batches:?}: {error:#}", path.display()));
                failures.extend(mismatches.iter().map(|found| format!("{}, {batches:?}: {found:#?}", path.display())));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The rule of an example, as `keyfold test` takes it.
fn stage(folder: &Path) -> Stage {
    let name = folder.file_name().expect("an example has a name").to_string_lossy();
    let settings =
        Settings::read(&command::example(&name).join("rule.toml")).unwrap_or_else(|error| panic!("{error:#}"));
    let limits = settings.limits.clone().unwrap_or_default();
    let cache = Cache::open(&command::cache()).expect("the target folder can be written");
    let loader = Loader::new(limits, cache, Compiler::with_program(command::KEYFOLD.into()));
    let loader = Arc::new(loader.expect("the limits are the defaults or an example's"));
    let bytes = fs::read(settings.component.as_ref().expect("a rule file has a component")).expect("it was there");
    let component = loader.load(&bytes).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    Stage { settings, component: Arc::new(component), loader }
}

/// The examples that are rules.
fn folders(parent: &Path) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> = entries(parent).into_iter().filter(|path| path.join("Cargo.toml").is_file()).collect();
    assert!(!folders.is_empty(), "there are no examples in {}", parent.display());
    folders
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.extension().is_some_and(|suffix| suffix == "toml")).collect()
}

/// What a folder holds, in name order; nothing when there is no folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an open folder can be read").path()).collect();
    paths.sort();
    paths
}
