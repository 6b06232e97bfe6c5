//! [`Workspace`]: where things are, as cargo sees it.

use crate::step;
use anyhow::{Context, Result};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders and crates of this workspace.
pub struct Workspace {
    /// The folder of the workspace.
    pub root: PathBuf,
    /// The folder for what is built.
    pub target: PathBuf,
    /// The guests of the tests that become a module.
    pub guests: Vec<Guest>,
}

/// A crate in `tests/guests`.
pub struct Guest {
    /// The name of its folder, and of its module.
    pub name: String,
    /// The name of the crate.
    pub package: String,
    /// The name of the library, as it stands in the file name of the module.
    pub library: String,
}

impl Workspace {
    /// Asks cargo.
    pub fn read() -> Result<Self> {
        let text = step::output(Command::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&text).context("cannot read what `cargo metadata` printed")?;
        let path =
            |name: &str| metadata[name].as_str().map(PathBuf::from).with_context(|| format!("cargo names no {name}"));
        let root = path("workspace_root")?;
        let packages = metadata["packages"].as_array().context("cargo names no packages")?;
        let guests = packages.iter().filter_map(|package| guest(package, &root.join("tests/guests"))).collect();
        Ok(Workspace { target: path("target_directory")?, guests, root })
    }

    /// A command that runs in the folder of the workspace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The program that `build` makes.
    pub fn keyfold(&self) -> PathBuf {
        self.target.join("debug").join(format!("keyfold{}", std::env::consts::EXE_SUFFIX))
    }
}

/// The crate, when it is in this folder and becomes a module.
fn guest(package: &Value, folder: &Path) -> Option<Guest> {
    let manifest = Path::new(package["manifest_path"].as_str()?);
    let name = manifest.strip_prefix(folder).ok()?.parent()?.to_str()?.to_owned();
    let is_module =
        |target: &&Value| target["crate_types"].as_array().is_some_and(|kinds| kinds.contains(&"cdylib".into()));
    let library = package["targets"].as_array()?.iter().find(is_module)?;
    let library = library["name"].as_str()?.replace('-', "_");
    Some(Guest { name, package: package["name"].as_str()?.to_owned(), library })
}
