//! Events a second by how many events a batch has: what of a batch costs the same however large it is.

use crate::Bench;
use crate::plot::{Axis, Line, Plot, Scale};
use crate::report::{Cell, Report, short};
use crate::rule::Options;
use crate::threads::run;
use anyhow::{Result, ensure};
use keyfold::r#gen::Share;
use plotters::chart::SeriesLabelPosition;

/// Events of a batch, and of the run.
const BATCHES: [(u64, u64); 5] =
    [(100, 50_000), (1_000, 300_000), (10_000, 1_000_000), (100_000, 2_000_000), (1_000_000, 4_000_000)];
const KEYS: u64 = 100_000;

pub fn measure(bench: &Bench) -> Result<Report> {
    let keys = bench.size(KEYS);
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for (size, events) in BATCHES.map(|(size, events)| (bench.size(size), bench.size(events))) {
        let options = Options { batch_events: size as usize, ..Options::default() };
        let ran = run(bench, options, keys, Share::ZERO, events)?;
        ensure!(ran.batches == events.div_ceil(size), "{events} events came in {} batches of {size}", ran.batches);
        points.push((size as f64, ran.rate()));
        rows.push(vec![
            Cell::Text(short(size)),
            Cell::Count(ran.rate() as u64),
            Cell::Number(ran.seconds * 1000.0 / ran.batches as f64, 2),
            Cell::Number(ran.cpu_micros(), 2),
            Cell::Count(ran.peak_mb),
        ]);
    }
    Ok(Report {
        name: "batches",
        what: format!("{} keys, card-sessions, all of the input there", short(keys)),
        columns: vec!["events of a batch", "events/s", "ms a batch", "CPU µs/event", "peak MB"],
        rows,
        plot: Some(Plot {
            title: "Throughput by the size of batches",
            x: Axis { title: "events of a batch", scale: Scale::Log },
            y: Axis { title: "events per second", scale: Scale::Log },
            lines: vec![Line::new("card-sessions", points)],
            legend: SeriesLabelPosition::UpperLeft,
        }),
    })
}
