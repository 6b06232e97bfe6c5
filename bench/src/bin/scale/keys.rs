//! Events a second by how many keys have a state, while they come and when they are there.

use crate::Bench;
use crate::payments::Payments;
use crate::plot::{Axis, Line, Plot, Scale};
use crate::report::{Cell, Report, short};
use crate::rule::{Options, Rule};
use anyhow::Result;
use keyfold::r#gen::Share;
use plotters::chart::SeriesLabelPosition;

const KEYS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Events of keys that are there.
const EVENTS: u64 = 2_000_000;
/// Keys of one file: what is on the disk at the same time besides the state.
const CHUNK: u64 = 1_000_000;

pub fn measure(bench: &Bench) -> Result<Report> {
    let events = bench.size(EVENTS);
    let (mut rows, mut new, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for keys in KEYS.map(|keys| bench.size(keys)) {
        let mut payments = Payments::new(keys, Share::ZERO);
        let mut rule = Rule::open(bench.scratch(), Options::default())?;
        let mut first_seconds = 0.0;
        for first in (0..keys).step_by(CHUNK as usize) {
            let users = first..keys.min(first + CHUNK);
            first_seconds += rule.read(|path| payments.write_once_each(users, path))?.seconds;
        }
        let ran = rule.read(|path| payments.write_drawn(events, path))?;
        let paid = rule.events();
        let megabytes = rule.close(keys, paid)?;
        let first_rate = keys as f64 / first_seconds;
        new.push((keys as f64, first_rate));
        known.push((keys as f64, ran.rate()));
        rows.push(vec![
            Cell::Text(short(keys)),
            Cell::Count(first_rate as u64),
            Cell::Count(ran.rate() as u64),
            Cell::Number(ran.cpu_micros(), 2),
            Cell::Count(ran.peak_mb),
            Cell::Count(megabytes),
        ]);
    }
    // A few keys are through before the first batch is of any size.
    new.retain(|(keys, _)| *keys >= Options::default().batch_events as f64);
    Ok(Report {
        name: "keys",
        what: format!("{} events of keys with a state, card-sessions, after one event of each key", short(events)),
        columns: vec!["keys", "new keys, events/s", "events/s", "CPU µs/event", "peak MB", "data folder MB"],
        rows,
        plot: Some(Plot {
            title: "Throughput by keys with state",
            x: Axis { title: "keys", scale: Scale::Log },
            y: Axis { title: "events per second", scale: Scale::Linear },
            lines: vec![Line::new("keys that are there", known), Line::new("keys that are new", new)],
            legend: SeriesLabelPosition::LowerLeft,
        }),
    })
}
