//! [`Series`]: all runs of one engine, and how each is made.

use super::cpu;
use super::engine::{Engine, Family};
use super::figures::Figures;
use super::input::{self, Input};
use super::peer::Peer;
use super::report::Report;
use super::usage::{self, Usage};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What all engines run with.
pub struct Bench<'w> {
    /// Where things are.
    pub workspace: &'w Workspace,
    /// The release build of `keyfold`.
    pub keyfold: PathBuf,
    /// The release build of the program for this one job.
    pub native: PathBuf,
    /// What they read.
    pub input: Input,
    /// The folder for what is kept from run to run, and for what each run writes.
    pub folder: PathBuf,
}

/// All runs of one engine.
pub struct Series {
    /// The engine.
    pub engine: &'static Engine,
    /// Its version, when it tells.
    pub version: Option<String>,
    /// The runs that were right.
    pub runs: Vec<Figures>,
    /// What was wrong with the others.
    pub faults: Vec<String>,
}

impl Series {
    /// No runs yet.
    pub fn new(engine: &'static Engine) -> Self {
        Series { engine, version: None, runs: Vec::new(), faults: Vec::new() }
    }

    /// Runs the engine once more. What is wrong with the run is kept, and does not keep others from running.
    pub fn run(&mut self, bench: &Bench) {
        match bench.run(self.engine) {
            Ok((version, figures)) => {
                eprintln!(
                    "    {:.0} events/s: {:.2} s, {:.2} s with its start; {:.2} CPU s per million events; {:.0} MB; rows equal",
                    figures.events_per_s,
                    figures.seconds_processing,
                    figures.seconds_total,
                    figures.cpu_seconds_per_million,
                    figures.peak_mb
                );
                self.version = version.or(self.version.take());
                self.runs.push(figures);
            }
            Err(error) => {
                eprintln!("    error: {error:#}");
                self.faults.push(format!("{error:#}"));
            }
        }
    }
}

impl Bench<'_> {
    /// One run: its version, when the engine tells, and its figures. Fails when the rows are not the expected ones.
    fn run(&self, engine: &Engine) -> Result<(Option<String>, Figures)> {
        let scratch = self.folder.join("run");
        input::remove(&scratch)?;
        let output = scratch.join("output");
        fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
        self.input.fill_page_cache()?;
        let load = cpu::load()?;
        let log = scratch.join("log");
        let usage = usage::measure(&mut self.command(engine, &output)?, &log)?;
        ensure!(usage.status.success(), "it failed, {}:\n{}", usage.status, end_of(&log));
        let report = report(engine, &usage)?;
        let difference = input::written(&output.join("rows"))?.difference(&self.input.expected);
        ensure!(difference.is_none(), "of {} rows {difference}", self.input.expected.count());
        let figures = Figures::new(self.input.shape.events, load, &usage, &report);
        input::remove(&scratch)?;
        Ok((report.version, figures))
    }

    fn command(&self, engine: &Engine, output: &Path) -> Result<Command> {
        let input = &self.input.folder;
        let mut command = match engine.family {
            Family::Native => {
                let mut native = Command::new(&self.native);
                native.args([input.as_path(), output]);
                native
            }
            Family::Keyfold => self.keyfold_command(output),
            family => match Peer::new(self.workspace, family) {
                Some(peer) => peer.command(input, output),
                None => bail!("{} is not set up by a script", family.name()),
            },
        };
        command.args(engine.arguments);
        Ok(command)
    }

    /// With a new data folder, and everything else as it is by default.
    fn keyfold_command(&self, output: &Path) -> Command {
        let mut keyfold = keyfold(self.workspace, &self.keyfold, &self.folder);
        keyfold.args(["run", RULE, "--json", "--partitions", "2", "--input"]).arg(&self.input.folder);
        keyfold.arg("--data").arg(output.join("data")).arg("--output").arg(output.join("rows"));
        keyfold
    }
}

/// The rule, below the folder of the workspace.
pub const RULE: &str = "examples/card-sessions";

/// Keyfold with the cache of compiled code that all runs share, and nothing else on the machine.
pub fn keyfold(workspace: &Workspace, program: &Path, folder: &Path) -> Command {
    let mut keyfold = workspace.command(program);
    keyfold.env("KEYFOLD_CACHE", folder.join("cache"));
    keyfold
}

fn report(engine: &Engine, usage: &Usage) -> Result<Report> {
    match engine.family {
        Family::Keyfold => Report::of_keyfold(&usage.lines, usage.seconds),
        _ => Report::of_peer(&usage.lines),
    }
}

/// The last lines of a log.
fn end_of(log: &Path) -> String {
    const LINES: usize = 20;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
