//! What timeouts cost: the time of a batch without events, by how many timeouts are due and how many keys wait.
//!
//! `cargo build --release -p keyfold && cargo run --release -p keyfold-bench --bin timeouts`, after `cargo xtask build`.

use anyhow::{Context, Result, ensure};
use keyfold::clock::Clock;
use keyfold::event::{Millis, RecordBatch};
use keyfold_bench::fed::{Fed, events, median};
use std::time::{Duration, Instant};

/// Keys that wait. Each has an event at a millisecond of its own, so that its timeout is due at one of its own.
const KEYS: [u64; 3] = [1_000, 10_000, 100_000];
/// Timeouts that are due in a batch.
const DUE: [u64; 4] = [0, 10, 100, 1_000];
/// Batches of each kind; the table has the median.
const RUNS: usize = 9;
/// The guest sets its timeout so long after the event.
const TIMEOUT_MS: i64 = 10_000;
/// Batches that the keys come in.
const BATCHES: u64 = 20;
/// Batches without anything, after which all keys are folded from memory into the table: what is measured after that is timeouts.
const SETTLING_BATCHES: u64 = 260;

fn main() -> Result<()> {
    print!("{:<28}", "milliseconds of a batch:");
    DUE.iter().for_each(|due| print!("{:>14}", format!("{due} due")));
    println!();
    for keys in KEYS {
        print!("{:<28}", format!("{keys} keys wait"));
        let medians = measure(keys)?;
        medians.iter().for_each(|median| print!("{:>14.2}", median.as_secs_f64() * 1000.0));
        println!();
    }
    Ok(())
}

/// The median time of a batch for each number of due timeouts.
fn measure(keys: u64) -> Result<Vec<Duration>> {
    let folder = tempfile::tempdir()?;
    let mut host = Fed::open(folder.path(), "event-time-timeout", Clock::manual(Millis(0)))?.host;
    for batch in 0..BATCHES {
        host.run_batch(events(batch * keys / BATCHES..(batch + 1) * keys / BATCHES, |number| number), None)?;
    }
    for _ in 0..SETTLING_BATCHES {
        host.run_batch(RecordBatch::default(), None)?;
    }
    let mut times = vec![Vec::new(); DUE.len()];
    let mut fired = 0;
    'runs: for _ in 0..RUNS {
        for (times, due) in times.iter_mut().zip(DUE) {
            if fired + due > keys {
                break 'runs;
            }
            fired += due;
            // Key number n is due strictly after n + 1 + TIMEOUT_MS; number `fired` - 1 is the last one that is to be.
            let watermark = Millis(fired as i64 + 1 + TIMEOUT_MS);
            let started = Instant::now();
            let outcome = host.run_batch(RecordBatch::default(), Some(watermark))?;
            times.push(started.elapsed());
            let progress = outcome.progress.context("a batch always has progress")?;
            let called = progress.state_operators[0].custom_metrics.num_timeouts;
            ensure!(called == due, "{called} timeouts were called, {due} were due");
        }
    }
    Ok(times.iter_mut().map(|times| median(times)).collect())
}
