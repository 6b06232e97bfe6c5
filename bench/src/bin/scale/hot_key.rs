//! Events a second when one key has many of the events: all of them go through one partition, one after another.

use crate::Bench;
use crate::report::{Cell, Report, short};
use crate::rule::{Options, median};
use crate::threads::run;
use anyhow::Result;
use keyfold::r#gen::Share;

/// Hundredths of the events that one key has.
const SHARES: [u32; 3] = [0, 10, 50];
const EVENTS: u64 = 2_000_000;
const KEYS: u64 = 100_000;
/// Runs of each, in turns; the table has the median.
const RUNS: usize = 3;

pub fn measure(bench: &Bench) -> Result<Report> {
    let (events, keys) = (bench.size(EVENTS), bench.size(KEYS));
    let mut runs = SHARES.map(|_| Vec::new());
    for _ in 0..RUNS {
        for (runs, share) in runs.iter_mut().zip(SHARES) {
            runs.push(run(bench, Options::default(), keys, Share::percent(share), events)?);
        }
    }
    let medians: Vec<_> = runs.map(median).into_iter().collect();
    let rows = SHARES.iter().zip(&medians).map(|(share, ran)| {
        vec![
            Cell::Text(format!("{share} %")),
            Cell::Count(ran.rate() as u64),
            Cell::Number(ran.rate() / medians[0].rate(), 2),
            Cell::Number(ran.cpu_micros(), 2),
        ]
    });
    Ok(Report {
        name: "hot-key",
        what: format!("{} events of {} keys, of which one has a share of its own", short(events), short(keys)),
        columns: vec!["one key has", "events/s", "ratio", "CPU µs/event"],
        rows: rows.collect(),
        plot: None,
    })
}
