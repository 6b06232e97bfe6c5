//! What timeouts cost: the time of a batch without events, by how many timeouts are due and how many keys wait.
//!
//! `cargo build --release -p keyfold && cargo run --release -p keyfold-bench --bin timeouts`, after `cargo xtask build`.

use anyhow::{Context, Result, ensure};
use keyfold::clock::Clock;
use keyfold::event::{InputId, Millis, OffsetRange, Position, Record, RecordBatch};
use keyfold::extract::{Extractor, TimeFormat};
use keyfold::host::{Delivery, Host, InputSettings, Settings};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::sink::MemorySink;
use keyfold::source::ReadLimit;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let target = program.parent().and_then(Path::parent).context("this program lies in no target folder")?.to_owned();
    print!("{:<28}", "milliseconds of a batch:");
    DUE.iter().for_each(|due| print!("{:>14}", format!("{due} due")));
    println!();
    for keys in KEYS {
        print!("{:<28}", format!("{keys} keys wait"));
        let medians = measure(&target, keys)?;
        medians.iter().for_each(|median| print!("{:>14.2}", median.as_secs_f64() * 1000.0));
        println!();
    }
    Ok(())
}

/// The median time of a batch for each number of due timeouts.
fn measure(target: &Path, keys: u64) -> Result<Vec<Duration>> {
    let folder = tempfile::tempdir()?;
    let mut host = host(target, folder.path())?;
    for batch in 0..BATCHES {
        host.run_batch(events(batch * keys / BATCHES..(batch + 1) * keys / BATCHES), None)?;
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
    Ok(times.into_iter().map(median).collect())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Key number n has its event at n + 1 ms.
fn events(numbers: std::ops::Range<u64>) -> RecordBatch {
    let mut records = RecordBatch::default();
    let at = |number: u64| Position { offset: number, line: number };
    records.ranges.push(OffsetRange {
        input: InputId(0),
        file: "bench".to_owned(),
        from: at(numbers.start),
        to: at(numbers.end),
    });
    for number in numbers {
        let start = records.text.len() as u32;
        records.text.extend_from_slice(format!("{{\"key\":\"k{number}\",\"ts\":{}}}", number + 1).as_bytes());
        records.records.push(Record { start, end: records.text.len() as u32, range: 0, line: number + 1 });
    }
    records
}

fn host(target: &Path, folder: &Path) -> Result<Host> {
    let limits = Limits::default();
    // The `keyfold` of the same profile as this program.
    let compiler = Compiler::with_program(std::env::current_exe()?.with_file_name("keyfold"));
    let loader = Arc::new(Loader::new(limits.clone(), Cache::open(&folder.join("cache"))?, compiler)?);
    let guest: PathBuf = target.join("guests/event-time-timeout.wasm");
    let bytes = std::fs::read(&guest).with_context(|| format!("no {}: run cargo xtask build", guest.display()))?;
    let component = Arc::new(loader.load(&bytes)?);
    let event_time = Some(("/ts".to_owned(), TimeFormat::EpochMs));
    let identity = Identity {
        rule: component.description().name.clone(),
        partitions: 2,
        inputs: vec![InputIdentity {
            name: "input".to_owned(),
            key: vec!["/key".to_owned()],
            event_time: Some(("/ts".to_owned(), TimeFormat::EpochMs.name().to_owned())),
        }],
        watermark_policy: WatermarkPolicy::Min,
        record_bytes_max: 0,
        csv_text: Vec::new(),
        id: "bench".to_owned(),
    };
    let settings = Settings {
        folder: folder.join("data"),
        identity,
        inputs: vec![InputSettings {
            extractor: Extractor::new(vec!["/key".to_owned()], event_time)?,
            // Events must not make each other's timeouts due.
            watermark: InputWatermark { delay: Duration::from_secs(1_000_000), idle_after: None },
        }],
        initial_state: None,
        parameters: serde_json::json!({}),
        limits,
        batch: ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX },
        history_batches: 0,
        overlay_budget: Default::default(),
        twice: false,
        control: Default::default(),
        hosting: Default::default(),
        threads: 2,
        batch_query: false,
        checkpoint: None,
        delivery: Delivery::default(),
    };
    Host::open(settings, Clock::manual(Millis(0)), component, loader, Box::new(MemorySink::default()))
}
