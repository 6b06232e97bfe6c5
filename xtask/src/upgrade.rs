//! `cargo xtask upgrade-folder`: a data folder of the format that this version writes, for the test that later versions go on with it.

use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::fs;

/// Where the number of the format stands, and what stands before it.
const SETTINGS: &str = "host/src/state/settings.rs";
const FORMAT: &str = "const FORMAT_VERSION: i32 = ";

/// Makes the folder, unless it is there.
pub fn make(workspace: &Workspace) -> Result<()> {
    let name = format!("v{}", format_version(workspace)?);
    let folder = workspace.root.join("tests/upgrade").join(&name);
    ensure!(!folder.exists(), "{} is there: a folder that a release has written is never made again", folder.display());
    let mut cargo = workspace.command("cargo");
    // All packages, so that the dependencies have the features that they were compiled with.
    cargo.args([
        "test",
        "--workspace",
        "--test",
        "it",
        "--",
        "--exact",
        "upgrade::a_folder_is_made_when_it_is_asked_for",
    ]);
    step(&format!("Making tests/upgrade/{name}"), || step::run(cargo.env("KEYFOLD_MAKE_UPGRADE_FOLDER", &name)))?;
    ensure!(folder.exists(), "no test has made {}", folder.display());
    Ok(())
}

fn format_version(workspace: &Workspace) -> Result<u32> {
    let path = workspace.root.join(SETTINGS);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let number = text.split_once(FORMAT).and_then(|(_, rest)| rest.split(';').next());
    number.and_then(|number| number.parse().ok()).with_context(|| format!("{SETTINGS} does not say the format"))
}
