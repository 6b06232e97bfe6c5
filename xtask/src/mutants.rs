//! `cargo xtask mutants`: breaks one rule of the semantics or one promise at a time, and sees that a fact or a test goes red.
//!
//! Each mutant of `tests/mutants.toml` is texts of source files and what takes their place. The change is made in a copy of the
//! workspace below the target folder, which shares what is compiled of the dependencies; the checkout is never touched.

use crate::facts::FACTS;
use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of mutants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutants {
    mutant: Vec<Mutant>,
}

/// One rule of the semantics, or one promise, broken.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    /// What is broken, as a name.
    name: String,
    /// How.
    edit: Vec<Edit>,
    /// Facts that must go red: at least these.
    #[serde(default)]
    red: Vec<String>,
    /// Integration tests that must go red: all of these.
    #[serde(default)]
    tests: Vec<String>,
}

/// A change of one source file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The file.
    file: PathBuf,
    /// A text that occurs in it once.
    find: String,
    /// What takes its place.
    replace: String,
}

/// Makes each mutant, plays the facts, and fails when one is not noticed.
pub fn mutants(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join("tests/mutants.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mutants: Mutants = toml::from_str(&text).with_context(|| format!("{} is not right", path.display()))?;
    let place = Place::new(workspace);
    step("Copying the workspace and what is compiled of its dependencies", || place.fill(workspace))?;
    let played = step("Playing the facts on the copy as it is", || place.play(workspace))?;
    ensure!(played.red.is_empty(), "facts are red without any mutant: {}", played.red.join(", "));
    ensure!(played.facts == FACTS, "{} of {FACTS} facts were played", played.facts);
    let tests: Vec<String> = mutants.mutant.iter().flat_map(|mutant| mutant.tests.clone()).collect();
    let red = step("Running the tests of the mutants on the copy as it is", || place.run(workspace, &tests))?;
    ensure!(red.is_empty(), "tests are red without any mutant: {}", red.join(", "));
    for mutant in &mutants.mutant {
        let name = &mutant.name;
        let mut before = Vec::new();
        for edit in &mutant.edit {
            before.push(place.make(edit).with_context(|| format!("mutant \"{name}\""))?);
        }
        let red = step(&format!("Mutant: {name}"), || {
            // A mutant is noticed by facts, which take a minute, or by a few tests.
            let mut red = if mutant.red.is_empty() { Vec::new() } else { place.play(workspace)?.red };
            if !mutant.tests.is_empty() {
                red.extend(place.run(workspace, &mutant.tests)?);
            }
            Ok(red)
        })?;
        // The last change first: two may be in one file.
        for (path, text) in before.into_iter().rev() {
            fs::write(path, text)?;
        }
        let expected = || mutant.red.iter().chain(&mutant.tests);
        let missed: Vec<&str> = expected().filter(|one| !red.contains(one)).map(String::as_str).collect();
        ensure!(
            expected().count() > 0 && missed.is_empty(),
            "mutant \"{name}\" was not noticed by {}; red are: {}",
            missed.join(", "),
            red.join(", ")
        );
        println!("{name}: noticed by {}", red.join(", "));
    }
    println!("{} mutants, all noticed", mutants.mutant.len());
    Ok(())
}

/// What became of the facts.
#[derive(Default)]
struct Played {
    /// How many were looked at.
    facts: usize,
    /// Those that do not hold.
    red: Vec<String>,
}

/// Where mutants are made.
struct Place {
    /// The copy of the workspace.
    root: PathBuf,
    /// Its target folder.
    target: PathBuf,
}

impl Place {
    fn new(workspace: &Workspace) -> Self {
        let folder = workspace.target.join("mutants");
        Place { root: folder.join("workspace"), target: folder.join("target") }
    }

    fn fill(&self, workspace: &Workspace) -> Result<()> {
        if self.root.exists() {
            fs::remove_dir_all(&self.root)?;
        }
        let mut git = workspace.command("git");
        let files = step::output(git.args(["ls-files", "--cached", "--others", "--exclude-standard"]))?;
        for file in files.lines() {
            let from = workspace.root.join(file);
            // A file that was deleted and not committed is still listed.
            if from.is_file() {
                copy_file(&from, &self.root.join(file), false)?;
            }
        }
        // Built and not listed: the tests run the examples.
        for example in fs::read_dir(workspace.root.join("examples"))? {
            let built = Path::new("examples").join(example?.file_name()).join("rule.wasm");
            if workspace.root.join(&built).is_file() {
                copy_file(&workspace.root.join(&built), &self.root.join(&built), false)?;
            }
        }
        // Changed a moment ago, as cargo sees it: the tests know where they were compiled, and must be compiled here.
        let changed = self.root.join("host/src/lib.rs");
        fs::write(&changed, fs::read(&changed)?)?;
        for folder in ["debug/deps", "debug/build", "debug/.fingerprint", "guests"] {
            let from = workspace.target.join(folder);
            if from.is_dir() {
                copy_folder(&from, &self.target.join(folder))?;
            }
        }
        Ok(())
    }

    /// Makes a change. Returns the file and what it held.
    fn make(&self, edit: &Edit) -> Result<(PathBuf, String)> {
        let path = self.root.join(&edit.file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let count = text.matches(&edit.find).count();
        ensure!(count == 1, "`{}` occurs {count} times in {}, and must once", edit.find, edit.file.display());
        fs::write(&path, text.replace(&edit.find, &edit.replace))?;
        Ok((path, text))
    }

    /// Builds and runs tests. Returns those that fail.
    fn run(&self, workspace: &Workspace, tests: &[String]) -> Result<Vec<String>> {
        let mut cargo = workspace.command("cargo");
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        // All packages, as for the facts. The program under test is broken, too.
        cargo.args(["test", "--workspace", "--test", "it", "--no-fail-fast", "--", "--exact"]).args(tests);
        let ran = cargo.output().context("cannot run the tests")?;
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let mut red = Vec::new();
        for test in tests {
            let outcome = said.lines().find_map(|line| line.strip_prefix(&format!("test {test} ... ")));
            match outcome {
                Some(outcome) if outcome.trim() == "ok" => {}
                Some(_) => red.push(test.clone()),
                None => bail!("{test} was not run:\n{}{said}", String::from_utf8_lossy(&ran.stderr)),
            }
        }
        Ok(red)
    }

    /// Builds and plays the facts.
    fn play(&self, workspace: &Workspace) -> Result<Played> {
        let results = self.target.join("conformance");
        if results.exists() {
            fs::remove_dir_all(&results)?;
        }
        let mut cargo = workspace.command("cargo");
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        // All packages, so that the dependencies have the features that they were compiled with.
        cargo.args(["test", "--workspace", "--test", "it", "--no-fail-fast", "--", "conformance::"]);
        let played = cargo.output().context("cannot run the tests")?;
        if !results.is_dir() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            bail!("the facts were not played:\n{}{}", text(&played.stderr), text(&played.stdout));
        }
        let mut all = Played::default();
        for entry in fs::read_dir(&results)? {
            let facts: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
            let facts = facts.as_array().context("the results of the facts are not a list")?;
            for fact in facts {
                all.facts += 1;
                if fact["failures"].as_array().is_some_and(|failures| !failures.is_empty()) {
                    all.red.push(fact["id"].as_str().unwrap_or_default().to_owned());
                }
            }
        }
        all.red.sort();
        Ok(all)
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            // These are written under another name and renamed, so that a link never changes under the other.
            let is_library = ["rlib", "rmeta"].map(OsStr::new).contains(&from.extension().unwrap_or_default());
            copy_file(&from, &to, is_library)?;
        }
    }
    Ok(())
}

/// Copies a file with its time, by which cargo knows whether it has changed.
fn copy_file(from: &Path, to: &Path, may_link: bool) -> Result<()> {
    let attempt = || format!("cannot copy {} to {}", from.display(), to.display());
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(attempt)?;
    }
    if to.exists() {
        fs::remove_file(to).with_context(attempt)?;
    }
    if may_link && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).with_context(attempt)?;
    let modified = fs::metadata(from).and_then(|metadata| metadata.modified()).with_context(attempt)?;
    let times = fs::FileTimes::new().set_modified(modified);
    fs::File::options().append(true).open(to).and_then(|file| file.set_times(times)).with_context(attempt)
}
