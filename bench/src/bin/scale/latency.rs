//! How long an output takes to follow its event: the event is appended to a stream and synced, the rule is woken, its batch is planned,
//! run and committed, and the output is appended to another stream and synced.

use crate::Bench;
use crate::plot::{Axis, Line, Plot, Scale};
use crate::report::{Cell, Report, short};
use crate::served::{BATCH_EVENTS, Served};
use anyhow::{Context, Result, anyhow, ensure};
use keyfold::event::BatchId;
use keyfold::runner::SinkSettings;
use keyfold::sink::{Sink, SinkError, StreamSink};
use keyfold::state::OutputBlock;
use keyfold::stream::{AppendRequest, NewEvent, StreamLog};
use keyfold_bench::latencies::{ms, percentile, syncs};
use plotters::chart::SeriesLabelPosition;
use serde::Deserialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Events a second, each a request of its own.
const RATE: u64 = 1_000;
/// As many as come in a minute.
const EVENTS: u64 = 60_000;
/// Users, each of whom has one event after another. Two of them are never in one batch.
const USERS: u64 = 10_000;
/// Requests that wait for their sync at the same time, at most.
const WRITERS: usize = 32;
/// Syncs of the disk alone, half of them before and half after.
const SYNCS: usize = 2_000;
/// The shares below which latencies are told.
const SHARES: [f64; 3] = [0.5, 0.99, 0.999];

pub fn measure(bench: &Bench) -> Result<Report> {
    let events = bench.size(EVENTS);
    let mut disk = syncs(bench.scratch(), SYNCS / 2)?;
    let Times { appended, delivered } = run(bench, events)?;
    disk.extend(syncs(bench.scratch(), SYNCS / 2)?);
    disk.sort_unstable();
    let kinds = [
        ("event to output, both synced", delivered),
        ("of this: event synced", appended),
        ("4 KiB, fdatasync, before and after", disk),
    ];
    let row = |(name, times): &(&str, Vec<Duration>)| {
        let name = Cell::Text((*name).to_owned());
        let longest = times.last().copied().unwrap_or_default();
        let of = |share: &f64| Cell::Number(ms(percentile(times, *share)), 2);
        std::iter::once(name).chain(SHARES.iter().map(of)).chain([Cell::Number(ms(longest), 2)]).collect()
    };
    let line = |(name, times): &(&str, Vec<Duration>)| {
        // 0 %, then in equal steps towards 99.9 %.
        let share = |step: u32| 1.0 - 10_f64.powf(-f64::from(step) / 20.0);
        let points = (0..=60).map(share).map(|share| (share, ms(percentile(times, share)).max(0.01)));
        Line::new(*name, points.collect())
    };
    Ok(Report {
        name: "latency",
        what: format!("{} events, {} a second, running-count, milliseconds", short(events), short(RATE)),
        columns: vec!["from … to", "p50", "p99", "p99.9", "longest"],
        rows: kinds.iter().map(row).collect(),
        plot: Some(Plot {
            title: "From an event to its output, at 1,000 events a second",
            x: Axis { title: "share of the events", scale: Scale::Beyond },
            y: Axis { title: "milliseconds", scale: Scale::Log },
            lines: kinds.iter().map(line).collect(),
            legend: SeriesLabelPosition::LowerRight,
        }),
    })
}

/// Latencies, sorted. Each counts from the moment at which the event was due.
struct Times {
    appended: Vec<Duration>,
    delivered: Vec<Duration>,
}

/// What the rule has delivered: when, and the number of the event.
type Delivered = Arc<Mutex<Vec<(Instant, u64)>>>;

fn run(bench: &Bench, events: u64) -> Result<Times> {
    let served = Served::open(bench.scratch(), "running-count")?;
    let (input, output) = (served.stream("events")?, served.stream("counts")?);
    let delivered = Delivered::default();
    let sink = SinkSettings::Other(Box::new({
        let (output, delivered) = (Arc::clone(&output), Arc::clone(&delivered));
        move || -> Box<dyn Sink> {
            let inner = StreamSink::new(Arc::clone(&output), "count".to_owned());
            Box::new(Timed { inner, delivered: Arc::clone(&delivered) })
        }
    }));
    let rules = vec![served.rule("count", None, &input, sink, BATCH_EVENTS)];
    served.wait_for(&rules, 0)?;
    let begin = Instant::now() + Duration::from_millis(100);
    let due = |number: u64| begin + Duration::from_secs_f64(number as f64 / RATE as f64);
    let mut appended = write(&input, events, due)?;
    served.wait_for(&rules, events)?;
    served.close(rules)?;
    let delivered = std::mem::take(&mut *delivered.lock().map_err(|_| anyhow!("the sink has panicked"))?);
    let mut numbers: Vec<u64> = delivered.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    ensure!(numbers.iter().copied().eq(0..events), "{} outputs are not one for each event", numbers.len());
    let mut delivered: Vec<_> = delivered.into_iter().map(|(at, number)| at - due(number)).collect();
    appended.sort_unstable();
    delivered.sort_unstable();
    Ok(Times { appended, delivered })
}

/// Appends each event when it is due, each with a request of its own. Returns how long that took.
fn write(log: &StreamLog, events: u64, due: impl Fn(u64) -> Instant + Sync) -> Result<Vec<Duration>> {
    let next = AtomicU64::new(0);
    let write = || -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= events {
                return Ok(times);
            }
            let json = format!(r#"{{"user_id":"user-{:05}","number":{number}}}"#, number % USERS);
            let event = NewEvent::new(json).map_err(|refusal| anyhow!(refusal.message))?;
            std::thread::sleep(due(number).saturating_duration_since(Instant::now()));
            log.append(AppendRequest { events: vec![event], ..AppendRequest::default() })
                .context("the stream refuses an event")?;
            times.push(due(number).elapsed());
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a writer has panicked"))?);
        Ok(joined.collect::<Result<Vec<Vec<Duration>>>>()?.concat())
    })
}

/// A stream, and when what it got was synced.
struct Timed {
    inner: StreamSink,
    delivered: Delivered,
}

/// An output of running-count in its envelope.
#[derive(Deserialize)]
struct Enveloped {
    output: Count,
}

#[derive(Deserialize)]
struct Count {
    key: String,
    count: u64,
}

impl Sink for Timed {
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        self.inner.deliver(batch, blocks)?;
        let now = Instant::now();
        let lines = blocks.iter().flat_map(|block| block.lines.split(|&byte| byte == b'\n'));
        let numbers: Result<Vec<u64>> = lines.filter(|line| !line.is_empty()).map(number).collect();
        let mut delivered = self.delivered.lock().map_err(|_| anyhow!("a measurement has panicked"))?;
        delivered.extend(numbers?.into_iter().map(|number| (now, number)));
        Ok(())
    }

    fn description(&self) -> String {
        self.inner.description()
    }
}

/// The number of the event that the rule has counted last.
fn number(line: &[u8]) -> Result<u64> {
    let Enveloped { output: Count { key, count } } = serde_json::from_slice(line)?;
    let user: u64 = key.strip_prefix("user-").context("it is no user")?.parse()?;
    Ok((count - 1) * USERS + user)
}
