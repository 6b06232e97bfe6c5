//! How the host scales, and how fast outputs follow their events: by threads, keys, sizes of batches, hot keys, rules on one stream and
//! timeouts that wait. Each measurement is a table and a plot; every one checks what it counted, and fails when it is not what went in.

mod batches;
mod hot_key;
mod keys;
mod latency;
mod payments;
mod plot;
mod report;
mod rule;
mod rules;
mod served;
mod threads;
mod timeouts;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use keyfold_bench::latencies::{ms, percentile, syncs};
use report::Report;
use std::path::{Path, PathBuf};

/// Measure how the host scales, and how fast outputs follow their events
#[derive(Parser)]
#[command(after_help = EXAMPLES)]
struct Args {
    /// What is measured; nothing for all
    #[arg(value_enum)]
    what: Vec<Measurement>,

    /// A hundredth of everything: to see that it works, in less than a minute
    #[arg(long)]
    quick: bool,

    /// Print an object for each row of a table instead
    #[arg(long)]
    json: bool,

    /// The folder for the plots; none are drawn with --quick, unless it is given
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Where state, streams and events lie meanwhile: on the disk that is to be measured, with 6 GB free
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask build && cargo build --release -p keyfold -p keyfold-sdk -p keyfold-bench -p xtask
  target/release/scale --quick
  target/release/scale keys batches --scratch /mnt/disk
  target/release/scale latency --json
  target/release/scale              # everything, in about 25 minutes; the plots go to bench/plots";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Measurement {
    /// Events a second with one and two threads
    Threads,
    /// Events a second by keys with state
    Keys,
    /// Events a second by the size of batches
    Batches,
    /// Events a second when one key has many of the events
    HotKey,
    /// Processor time of rules that read the same stream
    Rules,
    /// The time of batches in which nothing but timeouts is due
    Timeouts,
    /// From an event to its output, at a thousand events a second
    Latency,
}

/// Where measurements work, and how much they do.
pub struct Bench {
    scratch: tempfile::TempDir,
    quick: bool,
}

impl Bench {
    /// The folder on the disk that is measured.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// So many keys or events; in a quick run a hundredth of them.
    pub fn size(&self, full: u64) -> u64 {
        if self.quick { (full / 100).max(1) } else { full }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let scratch = match &args.scratch {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let bench = Bench { scratch: scratch.context("cannot make a scratch folder")?, quick: args.quick };
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("plots");
    let plots = args.plots.clone().or((!args.quick).then_some(committed));
    let all = Measurement::value_variants();
    for measurement in if args.what.is_empty() { all } else { &args.what } {
        let report = measurement.run(&bench)?;
        if args.json {
            report.print_json()?
        } else {
            report.print()?
        }
        if let Some(folder) = &plots {
            report.draw(folder)?;
        }
    }
    if !args.json {
        let disk = syncs(bench.scratch(), 500)?;
        let [median, p99] = [0.5, 0.99].map(|share| ms(percentile(&disk, share)));
        let cores = std::thread::available_parallelism()?;
        println!("{cores} cores; 4 KiB, fdatasync: {median:.2} ms (median), {p99:.2} ms (p99)");
    }
    Ok(())
}

impl Measurement {
    fn run(self, bench: &Bench) -> Result<Report> {
        match self {
            Measurement::Threads => threads::measure(bench),
            Measurement::Keys => keys::measure(bench),
            Measurement::Batches => batches::measure(bench),
            Measurement::HotKey => hot_key::measure(bench),
            Measurement::Rules => rules::measure(bench),
            Measurement::Timeouts => timeouts::measure(bench),
            Measurement::Latency => latency::measure(bench),
        }
    }
}
