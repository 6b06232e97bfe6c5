//! The `keyfold` binary, run as a user runs it.

use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The binary under test.
pub const KEYFOLD: &str = env!("CARGO_BIN_EXE_keyfold");

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the package lies in the checkout")
}

/// The target folder that the binary was built in.
pub fn target() -> PathBuf {
    let profile = Path::new(KEYFOLD).parent().expect("the binary lies in a folder");
    profile.parent().expect("the folder of the profile lies in the target folder").to_owned()
}

/// Compiled code, shared by all tests and runs of them.
pub fn cache() -> PathBuf {
    target().join("test-cache")
}

/// The folder of an example whose component was built.
pub fn example(name: &str) -> PathBuf {
    let folder = root().join("examples").join(name);
    let component = folder.join("rule.wasm");
    assert!(component.is_file(), "{} is missing: run `cargo xtask build`", component.display());
    folder
}

/// A call of the binary, with nothing of the caller's settings.
pub fn keyfold<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(KEYFOLD);
    command.args(args).env("KEYFOLD_CACHE", cache()).env_remove("KEYFOLD_LOG").env("NO_COLOR", "1");
    command.stdin(Stdio::null());
    command
}

/// What a call that has ended said.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Finished {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    Finished::from(output)
}

/// Runs the binary to its end.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Finished {
    finish(&mut keyfold(args))
}

impl Finished {
    /// Panics unless the exit code is 0.
    pub fn ok(self) -> Self {
        self.with_code(0)
    }

    /// Panics unless this is the exit code.
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Panics unless the call failed, and its message has all these parts.
    pub fn fails_with(self, parts: &[&str]) {
        let failed = self.with_code(1);
        for part in parts {
            assert!(failed.stderr.contains(part), "the message lacks '{part}':\n{}", failed.stderr);
        }
    }

    /// Standard output as lines of JSON.
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the binary prints UTF-8");
        Finished { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
