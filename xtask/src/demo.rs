//! `cargo xtask demo`: a million payments, fraud among them, and a crash.

use crate::crash;
use crate::found::Found;
use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Find fraud among made-up payments, crash, and go on
#[derive(clap::Args)]
pub struct DemoArgs {
    /// How many payments
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    events: u64,
}

/// Paths as a reader would type them, in the folder of the workspace.
pub const INPUT: &str = "demo/input";
const LABELS: &str = "demo/labels.jsonl";
const RULE: &str = "examples/fraud-session/rule.toml";

/// Where one run keeps its state and its outputs.
pub struct RunFolders {
    /// The state.
    pub data: PathBuf,
    /// The outputs.
    pub output: PathBuf,
}

impl RunFolders {
    /// Two folders in this one, neither of which is there yet.
    pub fn fresh(root: &Path, parent: &str) -> Result<Self> {
        let folders = RunFolders { data: Path::new(parent).join("state"), output: Path::new(parent).join("output") };
        for folder in [&folders.data, &folders.output] {
            remove(&root.join(folder))?;
        }
        Ok(folders)
    }

    /// The command that runs the rule with them.
    pub fn run(&self, workspace: &Workspace, events: u64) -> Command {
        // Enough batches for a crash between two of them.
        let batch_events = (events / 50).max(100);
        let mut keyfold = workspace.command(workspace.keyfold());
        keyfold.args(["run", RULE, "--input", INPUT, "--batch-events", &batch_events.to_string()]);
        keyfold.arg("--data").arg(&self.data).arg("--output").arg(&self.output);
        keyfold
    }
}

/// Shows what Keyfold does.
pub fn demo(workspace: &Workspace, args: &DemoArgs) -> Result<()> {
    make_input(workspace, args.events)?;
    let folders = RunFolders::fresh(&workspace.root, "demo")?;
    let mut run = folders.run(workspace, args.events);
    step(&format!("Looking for fraud: {}", shown(&run)), || step::run(&mut run))?;
    let output = workspace.root.join(&folders.output);
    Found::read(&output)?.show(&workspace.root.join(LABELS))?;
    crash::crash(workspace, args.events, &output)?;
    println!("\nThe outputs are in {}, the state is in {}.", folders.output.display(), folders.data.display());
    Ok(())
}

/// Makes the payments, unless they are there from an earlier demo.
fn make_input(workspace: &Workspace, events: u64) -> Result<()> {
    let (events, files) = (events.to_string(), "8");
    let mut r#gen = workspace.command(workspace.keyfold());
    r#gen.args(["gen", "fraud", "--events", &events, "--output", INPUT, "--files", files, "--labels", LABELS]);
    let line = shown(&r#gen);
    // What made them is written down last, so that an interrupted demo makes them anew.
    let note = workspace.root.join("demo/input-made-by");
    if fs::read_to_string(&note).is_ok_and(|made_by| made_by == line) {
        eprintln!("==> {events} payments are in {INPUT} already");
        return Ok(());
    }
    if note.exists() {
        fs::remove_file(&note).with_context(|| format!("cannot remove {}", note.display()))?;
    }
    remove(&workspace.root.join(INPUT))?;
    step(&format!("Making payments: {line}"), || step::run(&mut r#gen))?;
    fs::write(&note, line).with_context(|| format!("cannot write {}", note.display()))
}

/// The command, with the program by its name.
fn shown(command: &Command) -> String {
    let line = step::line(command);
    let program = command.get_program().to_string_lossy();
    line.replacen(&*program, "keyfold", 1)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}
