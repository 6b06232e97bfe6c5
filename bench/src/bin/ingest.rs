//! How fast streams take events: by how many writers, with bodies of how many events, beside the disk's own sync.
//!
//! `cargo build -p keyfold -p keyfold-sdk -p keyfold-bench -p xtask --all-targets && target/debug/ingest [FOLDER]`.

use anyhow::{Result, anyhow};
use keyfold::clock::Clock;
use keyfold::event::{InputId, RecordBatch};
use keyfold::source::{ReadLimit, ReadStatus, Source};
use keyfold::stream::{AppendRequest, NewEvent, StreamLimits, StreamLog, StreamSettings, StreamSource};
use keyfold_bench::process::load;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: [usize; 3] = [1, 8, 64];
/// Events of a request.
const BODIES: [u64; 3] = [1, 100, 1_000];
/// How long each combination runs.
const TIME: Duration = Duration::from_secs(3);
/// Syncs of the disk alone, before and after each combination.
const SYNCS: usize = 60;

fn main() -> Result<()> {
    let work = match std::env::args().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    println!(
        "writers  events/body    events/s  requests/s   syncs/s  requests/sync   p50 ms   p99 ms   disk ms   load"
    );
    for body in BODIES {
        for writers in WRITERS {
            let folder = work.path().join(format!("{writers}-{body}"));
            let disk = fdatasync_ms(work.path())?;
            let run = append(&folder, writers, body)?;
            let disk = f64::midpoint(disk, fdatasync_ms(work.path())?);
            println!(
                "{writers:>7}  {body:>11}  {:>10.0}  {:>10.0}  {:>8.0}  {:>13.1}  {:>7.2}  {:>7.2}  {disk:>8.2}  {:>5}",
                run.events as f64 / run.seconds,
                run.times.len() as f64 / run.seconds,
                run.syncs as f64 / run.seconds,
                run.times.len() as f64 / run.syncs as f64,
                percentile(&run.times, 50),
                percentile(&run.times, 99),
                load()?,
            );
            std::fs::remove_dir_all(&folder)?;
        }
    }
    read(&work.path().join("read"))
}

/// What one combination gave.
struct Run {
    events: u64,
    syncs: u64,
    seconds: f64,
    /// How long each request took, sorted.
    times: Vec<Duration>,
}

fn append(folder: &Path, writers: usize, body: u64) -> Result<Run> {
    let log = open(folder)?;
    let next = AtomicU64::new(0);
    let started = Instant::now();
    let times: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let write = || {
            let mut times = Vec::new();
            while started.elapsed() < TIME {
                let events = events(next.fetch_add(body, Ordering::Relaxed), body)?;
                let asked = Instant::now();
                log.append(AppendRequest { events, ..AppendRequest::default() })?;
                times.push(asked.elapsed());
            }
            Ok(times)
        };
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a writer has panicked"))?)
            .collect::<Result<_>>()
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let mut times = times.concat();
    times.sort_unstable();
    let counts = log.counts();
    Ok(Run { events: counts.events, syncs: counts.syncs, seconds, times })
}

/// How fast a rule reads what another process wrote.
fn read(folder: &Path) -> Result<()> {
    const EVENTS: u64 = 500_000;
    let log = open(folder)?;
    for number in (0..EVENTS).step_by(1000) {
        log.append(AppendRequest { events: events(number, 1000)?, ..AppendRequest::default() })?;
    }
    let (bytes, stored) = (log.ends()[0].offset, log.bytes());
    drop(log);
    let started = Instant::now();
    let log = open(folder)?;
    let opened = started.elapsed();
    let started = Instant::now();
    let mut source = StreamSource::new(InputId(0), Arc::clone(&log), log.starts());
    source.seek(&Default::default())?;
    let mut records = 0;
    loop {
        let mut batch = RecordBatch::default();
        let status = source.read(ReadLimit { records_max: 10_000, bytes_max: 1 << 24 }, &mut batch)?;
        records += batch.records.len();
        if status != ReadStatus::More {
            break;
        }
    }
    println!(
        "{records} events, {:.1} MB as {:.1} MB on the disk: opened in {:.1} ms, read at {:.0} events/s",
        bytes as f64 / 1e6,
        stored as f64 / 1e6,
        opened.as_secs_f64() * 1e3,
        records as f64 / started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn open(folder: &Path) -> Result<Arc<StreamLog>> {
    Ok(Arc::new(StreamLog::open(folder, StreamSettings::default(), Clock::System, StreamLimits::default())?))
}

fn events(first: u64, count: u64) -> Result<Vec<NewEvent>> {
    let event = |number: u64| {
        let (user, at, amount) = (number * 7919 % 100_000, 1_767_571_200_000 + number, 100 + number * 31 % 70_000);
        let json = format!(
            r#"{{"id":"tx-{number:09}","user_id":"user-{user:06}","ts":{at},"amount_minor":{amount},"country":"CH","mcc":"5411","device":"web"}}"#
        );
        NewEvent::new(json).map_err(|refusal| anyhow!(refusal.message))
    };
    (first..first + count).map(event).collect()
}

/// The median time in which the disk takes 4 KiB more of a file.
fn fdatasync_ms(folder: &Path) -> Result<f64> {
    let path: PathBuf = folder.join("disk");
    let file = File::create(&path)?;
    let mut times = Vec::new();
    for number in 0..SYNCS as u64 {
        let started = Instant::now();
        file.write_all_at(&[number as u8; 4096], number * 4096)?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    std::fs::remove_file(path)?;
    times.sort_unstable();
    Ok(percentile(&times, 50))
}

/// In milliseconds, of sorted times.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    times.get(times.len() * percent / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
