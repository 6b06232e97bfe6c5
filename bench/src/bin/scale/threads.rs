//! Events a second with one and two threads for the partitions.

use crate::Bench;
use crate::payments::Payments;
use crate::report::{Cell, Report, short};
use crate::rule::{Options, Ran, Rule, median};
use anyhow::Result;
use keyfold::r#gen::Share;

const THREADS: [usize; 2] = [1, 2];
const EVENTS: u64 = 2_000_000;
const KEYS: u64 = 100_000;
/// Runs with each number of threads, in turns; the table has the median.
const RUNS: usize = 3;

pub fn measure(bench: &Bench) -> Result<Report> {
    let (events, keys) = (bench.size(EVENTS), bench.size(KEYS));
    let mut runs = THREADS.map(|_| Vec::new());
    for _ in 0..RUNS {
        for (runs, threads) in runs.iter_mut().zip(THREADS) {
            runs.push(run(bench, Options { threads, ..Options::default() }, keys, Share::ZERO, events)?);
        }
    }
    let rows = THREADS.iter().zip(runs).map(|(&threads, runs)| {
        let ran = median(runs);
        vec![
            Cell::Count(threads as u64),
            Cell::Count(ran.rate() as u64),
            Cell::Number(ran.cpu_micros(), 2),
            Cell::Number(ran.cpu_seconds / ran.seconds, 2),
            Cell::Count(ran.peak_mb),
        ]
    });
    Ok(Report {
        name: "threads",
        what: format!("{} events of {} keys, card-sessions, 2 partitions", short(events), short(keys)),
        columns: vec!["threads", "events/s", "CPU µs/event", "cores busy", "peak MB"],
        rows: rows.collect(),
        plot: None,
    })
}

/// Lets a new rule read a payment of each user, and then so many that are drawn, of which one user has a share of its own. Returns
/// what the drawn ones took.
pub fn run(bench: &Bench, options: Options, keys: u64, hot: Share, events: u64) -> Result<Ran> {
    let mut payments = Payments::new(keys, hot);
    let mut rule = Rule::open(bench.scratch(), options)?;
    rule.read(|path| payments.write_once_each(0..keys, path))?;
    let ran = rule.read(|path| payments.write_drawn(events, path))?;
    let paid = rule.events();
    rule.close(keys, paid)?;
    Ok(ran)
}
