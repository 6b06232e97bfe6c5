//! What timeouts cost: the time of a batch without events, by how many timeouts are due and how many keys wait. Each that is due calls
//! the rule, which removes the state and puts out a row.

use crate::Bench;
use crate::plot::{Axis, Line, Plot, Scale};
use crate::report::{Cell, Report, short};
use crate::rule::{Options, Rule};
use anyhow::{Context, Result, ensure};
use keyfold::event::{InputId, Millis, OffsetRange, Position, Record, RecordBatch};
use keyfold_bench::fed::median;
use keyfold_bench::latencies::ms;
use plotters::chart::SeriesLabelPosition;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Keys that wait. Each has an event at a millisecond of its own, so that its timeout is due at one of its own.
const KEYS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Timeouts that are due in a batch.
const DUE: [u64; 5] = [0, 10, 100, 1_000, 10_000];
/// Batches of each kind; the table has the median.
const RUNS: usize = 9;
/// Card sessions sets its timeout so long after the last event.
const TIMEOUT_MS: i64 = 30 * 60 * 1000;
/// Batches that the keys come in.
const BATCHES: u64 = 20;
/// Batches without anything, after which all keys are folded from memory into the table: what is measured after that is timeouts.
const SETTLING_BATCHES: u64 = 260;

pub fn measure(bench: &Bench) -> Result<Report> {
    let keys = KEYS.map(|keys| bench.size(keys));
    let medians: Vec<Vec<Option<f64>>> = keys.iter().map(|&keys| of_keys(bench, keys)).collect::<Result<_>>()?;
    let cell = |median: &Option<f64>| median.map_or(Cell::Text(String::new()), |ms| Cell::Number(ms, 2));
    let row = |(&keys, medians): (&u64, &Vec<Option<f64>>)| {
        std::iter::once(Cell::Text(short(keys))).chain(medians.iter().map(cell)).collect()
    };
    let line = |(number, due): (usize, &u64)| {
        let points = keys.iter().zip(&medians).filter_map(|(&keys, medians)| Some((keys as f64, medians[number]?)));
        Line::new(format!("{} due", short(*due)), points.collect())
    };
    Ok(Report {
        name: "timeouts",
        what: "milliseconds of a batch in which nothing but timeouts is due (median), with 3 syncs, or 5 where rows go out".to_owned(),
        columns: vec!["keys that wait", "0 due", "10 due", "100 due", "1,000 due", "10,000 due"],
        rows: keys.iter().zip(&medians).map(row).collect(),
        plot: Some(Plot {
            title: "A batch of timeouts alone",
            x: Axis { title: "keys that wait for a timeout", scale: Scale::Log },
            y: Axis { title: "milliseconds", scale: Scale::Log },
            lines: DUE.iter().enumerate().map(line).collect(),
            legend: SeriesLabelPosition::UpperLeft,
        }),
    })
}

/// The median time of a batch for each number of due timeouts, in milliseconds; none where there are too few keys.
fn of_keys(bench: &Bench, keys: u64) -> Result<Vec<Option<f64>>> {
    let mut rule = Rule::open(bench.scratch(), Options::default())?;
    for batch in 0..BATCHES {
        rule.run_batch(payments(batch * keys / BATCHES..(batch + 1) * keys / BATCHES), None)?;
    }
    for _ in 0..SETTLING_BATCHES {
        rule.run_batch(RecordBatch::default(), None)?;
    }
    let mut times = vec![Vec::new(); DUE.len()];
    let mut fired = 0;
    for _ in 0..RUNS {
        for (times, due) in times.iter_mut().zip(DUE) {
            // All of one kind come to no more than a tenth of the keys: as many wait at the end as at the beginning, nearly.
            if due * RUNS as u64 > keys / 10 {
                continue;
            }
            fired += due;
            times.push(fire(&mut rule, fired, due)?);
        }
    }
    rule.close(keys - fired, keys - fired)?;
    Ok(times.iter_mut().map(|times| (!times.is_empty()).then(|| ms(median(times)))).collect())
}

/// Runs the batch after which the first `fired` keys have timed out; so many of them are due in it.
fn fire(rule: &mut Rule, fired: u64, due: u64) -> Result<Duration> {
    // Key number n is due strictly after n + 1 + TIMEOUT_MS; number `fired` - 1 is the last one that is to be.
    let watermark = Millis(fired as i64 + 1 + TIMEOUT_MS);
    let started = Instant::now();
    let outcome = rule.run_batch(RecordBatch::default(), Some(watermark))?;
    let time = started.elapsed();
    let progress = outcome.progress.context("a batch always has progress")?;
    let called = progress.state_operators[0].custom_metrics.num_timeouts;
    let rows = progress.sink.num_output_rows;
    ensure!(called == due && rows == due, "{called} timeouts were called and put out {rows} rows, {due} were due");
    Ok(time)
}

/// A payment of each of these users: that of user n is at n + 1 ms.
fn payments(users: Range<u64>) -> RecordBatch {
    let mut records = RecordBatch::default();
    let at = |number: u64| Position { offset: number, line: number };
    let (from, to) = (at(users.start), at(users.end));
    records.ranges.push(OffsetRange { input: InputId(0), file: "bench".to_owned(), from, to });
    for user in users {
        let start = records.text.len() as u32;
        let event = format!(r#"{{"user_id":"u{user:07}","ts":{},"amount_minor":100}}"#, user + 1);
        records.text.extend_from_slice(event.as_bytes());
        records.records.push(Record { start, end: records.text.len() as u32, range: 0, line: user + 1 });
    }
    records
}
