//! How long it takes to move a state of a million keys through a checkpoint, and whether every row is right afterwards.
//!
//! `cargo build --release -p keyfold -p keyfold-bench && target/release/restore [URL…]`, after `cargo xtask build`: through a folder
//! of this machine, and through each URL, such as `s3://bucket/path` with what S3 needs in the environment.

use anyhow::{Context, Result, ensure};
use keyfold::checkpoint::CheckpointStore;
use keyfold::checkpoint::restore::{Options, restore};
use keyfold::event::PartitionId;
use keyfold::state::reader::{KeyRow, PartitionReader};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const KEYS: u64 = 1_000_000;
/// Every key once, and a quarter of them again: the last deltas change what is in the snapshots.
const EVENTS: u64 = KEYS + KEYS / 4;
const BATCH_EVENTS: u64 = 20_000;
const SNAPSHOT_BATCHES: u64 = 20;
const PARTITIONS: u32 = 4;
/// All within one session, so that every key has a state and a timeout at the end.
const SPAN_MS: u64 = 600_000;
const START_MS: u64 = 1_767_571_200_000;

fn main() -> Result<()> {
    let work = tempfile::tempdir()?;
    let input = work.path().join("payments.jsonl");
    write_input(&input).context("failed to write the payments")?;
    let local = work.path().join("checkpoint").display().to_string();
    for (number, url) in (0..).zip([local].into_iter().chain(std::env::args().skip(1))) {
        let (data, restored) =
            (work.path().join(format!("data-{number}")), work.path().join(format!("restored-{number}")));
        let started = Instant::now();
        run(&input, &data, &work.path().join(format!("output-{number}")), &url)?;
        let ran = started.elapsed();
        let store = CheckpointStore::open(&url)?;
        let started = Instant::now();
        let done = restore(&store, &restored, Options::default(), &mut ())?;
        let taken = started.elapsed();
        ensure!(done.faults.is_empty() && done.to_run_again.is_none(), "{done:?}");
        let started = Instant::now();
        let rows = compare(&data, &restored)?;
        println!(
            "{url}: the run took {:.1} s; {rows} keys restored from {:.1} MB in {:.2} s; every row compared in {:.1} s",
            ran.as_secs_f64(),
            done.bytes as f64 / 1e6,
            taken.as_secs_f64(),
            started.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn write_input(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for event in 0..EVENTS {
        // The step is prime to the number of keys: they come in another order than theirs.
        let (key, at_ms) = (event * 7_919 % KEYS, START_MS + event * SPAN_MS / EVENTS);
        writeln!(file, "{{\"user_id\":\"user-{key:08}\",\"ts\":{at_ms},\"amount_minor\":{}}}", 100 + event % 70_000)?;
    }
    Ok(file.flush()?)
}

/// The `keyfold` of the same profile as this program, as a user runs it.
fn run(input: &Path, data: &Path, output: &Path, url: &str) -> Result<()> {
    let program = std::env::current_exe()?.with_file_name("keyfold");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/card-sessions");
    let mut call = Command::new(&program);
    call.arg("run").arg(example).args(["--quiet", "--checkpoint", url, "--history-batches", "0"]);
    call.args(["--batch-events", &BATCH_EVENTS.to_string(), "--snapshot-batches", &SNAPSHOT_BATCHES.to_string()]);
    call.args(["--partitions", &PARTITIONS.to_string()]);
    call.arg("--input").arg(input).arg("--data").arg(data).arg("--output").arg(output);
    let status = call.status().with_context(|| format!("failed to start {}", program.display()))?;
    ensure!(status.success(), "the run failed: {status}");
    Ok(())
}

/// Compares all rows of two data folders. Returns how many there are.
fn compare(expected: &Path, found: &Path) -> Result<u64> {
    let mut count = 0;
    for partition in (0..PARTITIONS).map(PartitionId) {
        let (expected, found) = (rows(expected, partition)?, rows(found, partition)?);
        ensure!(expected == found, "the rows of partition {partition} differ");
        count += found.len() as u64;
    }
    ensure!(count == KEYS, "{count} keys have a state");
    Ok(count)
}

fn rows(folder: &Path, partition: PartitionId) -> Result<Vec<KeyRow>> {
    let mut rows = Vec::new();
    PartitionReader::open(folder, partition)?.scan(|row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}
