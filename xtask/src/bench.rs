//! `cargo xtask bench`: card sessions in Keyfold, in a program for this one job, and in the engines of others that are set up.

mod cpu;
mod engine;
mod figures;
mod input;
mod machine;
mod measured;
mod memory;
mod peer;
#[path = "../../tests/it/support/card_sessions/reference.rs"]
mod reference;
mod report;
mod series;
mod table;
mod usage;

use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Result, ensure};
use engine::{ENGINES, Engine};
use input::{Input, Shape};
use machine::{Machine, fdatasync_ms};
use measured::Measured;
use peer::{Peer, SetUp};
use series::{Bench, RULE, Series};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

/// Measure card sessions, end to end, beside a native program and the engines of others
///
/// Makes the payments, runs each engine several times in turns, each time in new folders, compares all rows with those that are
/// right, and prints one table. Builds what it runs; engines of others are set up once, with --set-up. A full run takes some ten
/// minutes on two cores. bench/README.md says what each number means.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// How many payments [default: 2000000; with --warm 10000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,

    /// Of how many users [default: one for 20 payments]
    #[arg(long, value_name = "N")]
    users: Option<u64>,

    /// In how many files, each of which is a batch in Spark [default: 8; with --warm 40]
    #[arg(long, value_name = "N")]
    files: Option<u32>,

    /// How often each engine runs; medians are shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Only these engines, or families of them; --list has the names
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    /// An input that is long enough for engines that are slow until their code is compiled: shows their rate in the second half of
    /// it, and every engine's rate by the quarter
    #[arg(long)]
    warm: bool,

    /// How long to wait, before each run, for a machine that does nothing else
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    idle_wait: u64,

    /// Print one line of JSON, with every run, instead of the table
    #[arg(long)]
    json: bool,

    /// Show the engines, and which of them can run
    #[arg(long)]
    list: bool,

    /// Download these engines and compile their programs, below target/peers, and measure nothing: spark, flink, bytewax, or all.
    /// They need Python 3 with its venv module, Spark and Flink a JDK of version 17 or later
    #[arg(long, value_name = "PEERS", value_delimiter = ',')]
    set_up: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench --set-up all
  cargo xtask bench
  cargo xtask bench --only native,keyfold --events 200000
  cargo xtask bench --warm --only keyfold,spark,flink-heap --runs 1
  cargo xtask bench --json > measured.json";

/// Measures. Fails when a run did, or when its rows are not the right ones.
pub fn bench(workspace: &Workspace, args: &BenchArgs) -> Result<ExitCode> {
    if args.list {
        return list(workspace).map(|()| ExitCode::SUCCESS);
    }
    if !args.set_up.is_empty() {
        peer::named(workspace, &args.set_up)?.iter().try_for_each(Peer::set_up)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (engines, not_set_up) = engines(workspace, &args.only)?;
    let folder = workspace.target.join("bench");
    let (keyfold, native) = build(workspace, &folder)?;
    let machine = Machine::read(workspace, &keyfold)?;
    let shape = args.shape();
    let input = Input::make(workspace, &keyfold, shape)?;
    let bench = Bench { workspace, keyfold, native, input, folder: folder.clone() };
    let synced_before_ms = fdatasync_ms(&folder)?;
    let series = measure(&bench, &engines, args)?;
    let synced_ms = [synced_before_ms, fdatasync_ms(&folder)?];
    let measured = Measured { machine, input: bench.input, runs: args.runs, synced_ms, series, not_set_up };
    if args.json {
        println!("{}", measured.json());
    } else {
        measured.show(args.warm);
    }
    Ok(if measured.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl BenchArgs {
    fn shape(&self) -> Shape {
        let (events, files) = if self.warm { (10_000_000, 40) } else { (2_000_000, 8) };
        let events = self.events.unwrap_or(events);
        Shape { events, users: self.users.unwrap_or(events.div_ceil(20)), files: self.files.unwrap_or(files) }
    }
}

fn list(workspace: &Workspace) -> Result<()> {
    for engine in &ENGINES {
        let state = match Peer::new(workspace, engine.family).map(|peer| peer.set_up_state()).transpose()? {
            None => "built with the project".to_owned(),
            Some(SetUp::Done) => "set up".to_owned(),
            Some(state) => what_to_do(engine.family.name(), state),
        };
        let only = if engine.is_extra { "; only when it is named" } else { "" };
        println!("{:<26}{}{only}; {state}", engine.name, engine.what);
    }
    Ok(())
}

/// Those that can run, and what is to be done for each of the others. One that is named must be able to.
fn engines(workspace: &Workspace, only: &[String]) -> Result<(Vec<&'static Engine>, Vec<String>)> {
    let (mut ready, mut not_set_up) = (Vec::new(), Vec::new());
    for engine in engine::chosen(only)? {
        match Peer::new(workspace, engine.family).map(|peer| peer.set_up_state()).transpose()? {
            None | Some(SetUp::Done) => ready.push(engine),
            Some(state) => not_set_up.push(format!("{}: {}", engine.name, what_to_do(engine.family.name(), state))),
        }
    }
    ensure!(only.is_empty() || not_set_up.is_empty(), "{}", not_set_up.join("\n"));
    Ok((ready, not_set_up))
}

fn what_to_do(family: &str, state: SetUp) -> String {
    let why = if state == SetUp::Missing { "not set up" } else { "has changed since it was set up" };
    format!("{why}: cargo xtask bench --set-up {family}")
}

/// Builds Keyfold, the rule and the native program. Returns the programs.
fn build(workspace: &Workspace, folder: &Path) -> Result<(PathBuf, PathBuf)> {
    step("Building target/release/keyfold (minutes the first time)", || {
        // With the packages that are built for the other measurements, too: cargo chooses the features of dependencies by what is
        // built together, and would compile wasmtime once more for the program alone.
        let packages = ["keyfold", "keyfold-sdk", "keyfold-bench", "xtask"];
        let mut cargo = workspace.command("cargo");
        cargo.args(["build", "--release", "--bin", "keyfold"]);
        step::run(cargo.args(packages.iter().flat_map(|package| ["-p", package])))
    })?;
    let keyfold = workspace.target.join("release/keyfold");
    step("Building the rule", || step::run(workspace.command(&keyfold).args(["build", RULE])))?;
    // Compiled before the first run: it happens once for a component, like the compiling of the programs for Spark and Flink.
    let component = format!("{RULE}/rule.wasm");
    step::run(series::keyfold(workspace, &keyfold, folder).args(["inspect", &component]).stdout(Stdio::null()))?;
    let target = workspace.target.join("peers/native");
    step("Building the native program", || {
        let mut cargo = workspace.command("cargo");
        cargo.args([
            "build",
            "--release",
            "--locked",
            "--manifest-path",
            "bench/peers/native/Cargo.toml",
            "--target-dir",
        ]);
        step::run(cargo.arg(&target))
    })?;
    Ok((keyfold, target.join("release/card-sessions-native")))
}

/// All runs, in turns: what changes on the machine meanwhile meets all engines.
fn measure(bench: &Bench, engines: &[&'static Engine], args: &BenchArgs) -> Result<Vec<Series>> {
    let mut series: Vec<Series> = engines.iter().copied().map(Series::new).collect();
    let all = series.len() * args.runs as usize;
    for run in 0..args.runs as usize {
        for (place, series) in series.iter_mut().enumerate() {
            let number = run * engines.len() + place + 1;
            let idle_share = cpu::wait_until_idle(Duration::from_secs(args.idle_wait))?;
            eprintln!("==> [{number}/{all}] {} (the machine was {:.0} % idle)", series.engine.name, idle_share * 100.0);
            series.run(bench);
        }
    }
    Ok(series)
}
