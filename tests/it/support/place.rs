//! A folder that a test runs the binary in.

use super::{command, folder};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with a rule file, inputs, a data folder and an output folder.
pub struct Place(TempDir);

impl Place {
    /// A place with a rule file: the component, and what else it says.
    pub fn with_rule(component: &Path, settings: &str) -> Self {
        let place = Place(tempfile::tempdir().expect("a folder can be made"));
        place.write("rule.toml", &format!("component = {component:?}\n{settings}"));
        place
    }

    /// The rule that counts the events of each key.
    pub fn counting(settings: &str) -> Self {
        Place::with_rule(&command::example("running-count").join("rule.wasm"), settings)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("the disk has room");
        fs::write(path, text).expect("the disk has room");
    }

    /// A call of the binary in this folder.
    pub fn keyfold(&self, args: &[&str]) -> Command {
        let mut call = command::keyfold(args);
        call.current_dir(self.0.path());
        call
    }

    /// A call of the binary in this folder, run to its end.
    pub fn finish(&self, args: &[&str]) -> command::Finished {
        command::finish(&mut self.keyfold(args))
    }

    /// Runs the rule over what is there, and returns the new outputs.
    pub fn run(&self, settings: &[&str]) -> Vec<Value> {
        let before = self.outputs().len();
        let args = [&["run", ".", "--quiet", "--data", "data", "--output", "output"], settings].concat();
        self.finish(&args).ok();
        self.outputs().split_off(before)
    }

    /// All outputs so far.
    pub fn outputs(&self) -> Vec<Value> {
        let lines = folder::lines(&self.path("output"));
        lines.iter().map(|line| serde_json::from_str(line).expect("outputs are JSON")).collect()
    }

    /// The rows of the state.
    pub fn rows(&self) -> Vec<Value> {
        self.finish(&["state", "ls", "data"]).ok().json_lines()
    }
}
