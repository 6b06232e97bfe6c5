//! `cargo xtask soak`: a run that is killed again and again at moments that nobody chose, and compared with one that was not.

use crate::found::files;
use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Kill a run again and again, and see that its outputs are those of a run that was left alone
#[derive(clap::Args)]
pub struct SoakArgs {
    /// How often
    #[arg(long, value_name = "N", default_value_t = 20)]
    kills: u32,
    /// How many payments are made
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    events: u64,
    /// Another seed makes other payments, and kills at other moments
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Read the files of this folder instead of making payments
    #[arg(long, value_name = "DIR")]
    input: Option<PathBuf>,
}

const RULE: &str = "examples/card-sessions/rule.toml";
/// A run is given this long to write anything, before that is a fault.
const STALL: Duration = Duration::from_secs(120);
/// How often the files are counted.
const POLL: Duration = Duration::from_millis(2);

/// One run's folders, and the command that goes on with it.
struct Run<'w> {
    workspace: &'w Workspace,
    input: &'w Path,
    batch_events: u64,
    folder: PathBuf,
}

/// Kills as often as was asked, then compares.
pub fn soak(workspace: &Workspace, args: &SoakArgs) -> Result<()> {
    let folder = workspace.target.join("soak");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let input = match &args.input {
        Some(input) => input.clone(),
        None => make_input(workspace, args, &folder.join("input"))?,
    };
    // Enough batches that each kill comes in another one, and room for those that are written before it.
    let batch_events = (args.events / (u64::from(args.kills) * 5).max(100)).max(20);
    let run = |name: &str| Run { workspace, input: &input, batch_events, folder: folder.join(name) };
    let undisturbed = run("undisturbed");
    step("Running undisturbed", || step::run(&mut undisturbed.command()))?;
    let expected = files(&undisturbed.output())?;
    let killed = run("killed");
    let mut draws = Draws(args.seed ^ 0x9E37_79B9_7F4A_7C15);
    let begin = Instant::now();
    for kill in 1..=args.kills {
        let left = (expected.len() as u64).saturating_sub(killed.written());
        // A share of what is left for each kill that is to come, so that the last one still finds a run to kill.
        let until = draws.below(left * 3 / 2 / u64::from(args.kills - kill + 2));
        let written = killed.kill_after(killed.written() + until, Duration::from_micros(draws.below(30_000)))?;
        println!(
            "kill {kill} of {}: {written} of {} files, {:.0} s",
            args.kills,
            expected.len(),
            begin.elapsed().as_secs_f64()
        );
        for (name, bytes) in files(&killed.output())? {
            ensure!(expected.get(&name) == Some(&bytes), "after kill {kill}, {name} has other bytes than without one");
        }
    }
    step("Running to the end", || step::run(&mut killed.command()))?;
    let found = files(&killed.output())?;
    ensure!(found.keys().eq(expected.keys()), "{} files, and {} without kills", found.len(), expected.len());
    for (name, bytes) in &expected {
        ensure!(found.get(name) == Some(bytes), "{name} has other bytes than without kills");
    }
    for what in [["state", "ls"].as_slice(), &["dead-letters"]] {
        let [one, other] = [&killed, &undisturbed].map(|run| run.said(what));
        ensure!(one? == other?, "`keyfold {}` says something else than without kills", what.join(" "));
    }
    let rows: usize = expected.values().map(|bytes| bytes.iter().filter(|&&byte| byte == b'\n').count()).sum();
    println!(
        "{} kills, {rows} rows in {} files: the same bytes as without kills; seed {}",
        args.kills,
        expected.len(),
        args.seed
    );
    Ok(())
}

fn make_input(workspace: &Workspace, args: &SoakArgs, folder: &Path) -> Result<PathBuf> {
    let (events, seed) = (args.events.to_string(), args.seed.to_string());
    let mut r#gen = workspace.command(workspace.keyfold());
    r#gen.args(["gen", "card-sessions", "--events", &events, "--seed", &seed, "--files", "4", "--output"]).arg(folder);
    step(&format!("Making {events} payments"), || step::run(&mut r#gen))?;
    Ok(folder.to_owned())
}

impl Run<'_> {
    fn output(&self) -> PathBuf {
        self.folder.join("output")
    }

    fn command(&self) -> Command {
        let mut keyfold = self.workspace.command(self.workspace.keyfold());
        keyfold
            .args(["run", RULE, "--quiet", "--batch-events", &self.batch_events.to_string(), "--input"])
            .arg(self.input);
        keyfold.arg("--data").arg(self.folder.join("data")).arg("--output").arg(self.output());
        keyfold
    }

    /// What a command says of the data folder.
    fn said(&self, what: &[&str]) -> Result<String> {
        let mut keyfold = self.workspace.command(self.workspace.keyfold());
        step::output(keyfold.args(what).arg(self.folder.join("data")))
    }

    /// How many files of outputs are whole.
    fn written(&self) -> u64 {
        let Ok(entries) = fs::read_dir(self.output()) else { return 0 };
        let whole = |name: &std::ffi::OsStr| !name.as_encoded_bytes().starts_with(b".");
        entries.flatten().filter(|entry| whole(&entry.file_name())).count() as u64
    }

    /// Runs until so many files are written, a moment longer, and kills. Returns how many there are.
    fn kill_after(&self, wanted: u64, longer: Duration) -> Result<u64> {
        fs::create_dir_all(&self.folder)?;
        let log = self.folder.join("killed-run.log");
        let stderr = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = self.command().stdout(Stdio::null()).stderr(stderr).spawn().context("cannot run keyfold")?;
        let waited = self.wait(&mut child, wanted);
        thread::sleep(longer);
        // Fails when the process has ended by itself; the status tells.
        let _ = child.kill();
        let status = child.wait().context("cannot wait for keyfold")?;
        waited?;
        ensure!(
            status.code().is_none_or(|code| code == 0),
            "the run failed before it was killed: {status}; see {}",
            log.display()
        );
        ensure!(status.code().is_none(), "the run was over before it could be killed: give --events a larger number");
        Ok(self.written())
    }

    fn wait(&self, child: &mut Child, wanted: u64) -> Result<()> {
        let begin = Instant::now();
        while self.written() < wanted && child.try_wait().context("cannot wait for keyfold")?.is_none() {
            ensure!(begin.elapsed() < STALL, "the run has not come to {wanted} files in {} s", STALL.as_secs());
            thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Random numbers (SplitMix64): good enough to choose moments, and the same for the same seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_below_their_bound_and_the_same_for_a_seed() {
        let draws = |seed| {
            let mut draws = Draws(seed);
            (0..100).map(|_| draws.below(7)).collect::<Vec<_>>()
        };
        assert_eq!(draws(3), draws(3));
        assert_ne!(draws(3), draws(4));
        assert!((0..7).all(|number| draws(3).contains(&number)) && draws(3).iter().all(|&number| number < 7));
    }
}
