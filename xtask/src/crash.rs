//! The demo's second half: the same run, killed in the middle and started again, gives the same bytes.

use crate::demo::RunFolders;
use crate::found::files;
use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Runs again in fresh folders, kills the run in the middle, starts it again, and compares with `undisturbed`.
pub fn crash(workspace: &Workspace, events: u64, undisturbed: &Path) -> Result<()> {
    println!();
    let expected = files(undisturbed)?;
    let (folders, killed_at) = kill_in_the_middle(workspace, events, expected.len())?;
    let mut again = folders.run(workspace, events);
    step("Starting it again with the same command", || step::run(&mut again))?;
    compare(&expected, &workspace.root.join(&folders.output))?;
    println!(
        "\nKilled with {killed_at} of {} output files written, and started again: every file has the same bytes.",
        expected.len()
    );
    Ok(())
}

/// A short run may be over before the signal arrives; then it is tried again earlier.
fn kill_in_the_middle(workspace: &Workspace, events: u64, files: usize) -> Result<(RunFolders, usize)> {
    for part in [2, 4, 8] {
        let wanted = files.div_ceil(part);
        let folders = RunFolders::fresh(&workspace.root, "demo/crash")?;
        let killed_at = step(&format!("Running again, to be killed after {wanted} of {files} files"), || {
            run_and_kill(workspace, &folders, events, wanted)
        })?;
        match killed_at {
            Some(killed_at) => return Ok((folders, killed_at)),
            None => eprintln!("    it was over before it could be killed"),
        }
    }
    bail!("the run is too short to be killed in the middle: give --events a larger number");
}

/// Kills with SIGKILL, which no program can catch. Returns how many files there were, or none when the run was over before.
fn run_and_kill(workspace: &Workspace, folders: &RunFolders, events: u64, wanted: usize) -> Result<Option<usize>> {
    let output = workspace.root.join(&folders.output);
    let log = workspace.root.join("demo/crash/killed-run.log");
    let context = || format!("cannot write {}", log.display());
    fs::create_dir_all(workspace.root.join("demo/crash")).with_context(context)?;
    let stderr = File::create(&log).with_context(context)?;
    let mut command = folders.run(workspace, events);
    let mut child = command.stdout(Stdio::null()).stderr(stderr).spawn().context("cannot run keyfold")?;
    loop {
        let written = if output.is_dir() { names(&output)? } else { 0 };
        if written >= wanted {
            // Fails when the process has ended by itself; the status tells.
            let _ = child.kill();
            let status = child.wait().context("cannot wait for keyfold")?;
            return Ok(if status.success() { None } else { Some(written) });
        }
        if let Some(status) = child.try_wait().context("cannot wait for keyfold")? {
            ensure!(status.success(), "the run failed before it was killed: {status}; see {}", log.display());
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// How many finished files a folder has.
fn names(folder: &Path) -> Result<usize> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let finished = |name: &OsStr| !name.as_encoded_bytes().starts_with(b".");
    Ok(entries.flatten().filter(|entry| finished(&entry.file_name())).count())
}

fn compare(expected: &BTreeMap<String, Vec<u8>>, output: &Path) -> Result<()> {
    let found = files(output)?;
    for (name, bytes) in expected {
        let found =
            found.get(name).with_context(|| format!("after the crash, {} is missing", output.join(name).display()))?;
        ensure!(found == bytes, "after the crash, {} has other bytes", output.join(name).display());
    }
    for name in found.keys() {
        ensure!(expected.contains_key(name), "after the crash, {} is one too many", output.join(name).display());
    }
    Ok(())
}
