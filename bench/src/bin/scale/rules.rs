//! What many rules on one stream take: processor time for the same events, from their coming in until every rule has committed and
//! delivered what it made of them.

use crate::Bench;
use crate::payments::Payments;
use crate::plot::{Axis, Line, Plot, Scale};
use crate::report::{Cell, Report, short};
use crate::served::{BATCH_EVENTS, Served};
use anyhow::{Context, Result, anyhow, ensure};
use keyfold::r#gen::Share;
use keyfold::runner::SinkSettings;
use keyfold::stream::{AppendRequest, NewEvent, StreamLog};
use keyfold_bench::process;
use plotters::chart::SeriesLabelPosition;
use std::time::{Duration, Instant};

const RULES: [usize; 3] = [1, 10, 100];
const KEYS: u64 = 10_000;
/// Events of a request, and before what is measured: each rule is open then.
const REQUEST: usize = 1_000;
/// Runs of each, in turns; the table has the median.
const RUNS: usize = 3;

/// How events come.
#[derive(Clone, Copy)]
struct Pace {
    name: &'static str,
    events: u64,
    /// Events of a batch at most.
    batch_events: usize,
    request: usize,
    /// From one request to the next.
    interval: Duration,
}

const AT_ONCE: Pace =
    Pace { name: "at once", events: 200_000, batch_events: BATCH_EVENTS, request: REQUEST, interval: Duration::ZERO };

const PACES: [Pace; 3] = [
    AT_ONCE,
    Pace { name: "at once, batches of 100,000", batch_events: 100_000, ..AT_ONCE },
    Pace { name: "2,000 a second", events: 20_000, request: 20, interval: Duration::from_millis(10), ..AT_ONCE },
];

/// What so many rules took.
struct Taken {
    cpu_seconds: f64,
    seconds: f64,
    blocks_keyed: u64,
}

pub fn measure(bench: &Bench) -> Result<Report> {
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for pace in PACES.map(|pace| Pace { events: bench.size(pace.events).max(REQUEST as u64), ..pace }) {
        let mut runs = RULES.map(|_| Vec::new());
        for _ in 0..RUNS {
            for (runs, rules) in runs.iter_mut().zip(RULES) {
                runs.push(run(bench, rules, pace)?);
            }
        }
        let medians = runs.map(|mut runs| {
            runs.sort_by(|a, b| a.cpu_seconds.total_cmp(&b.cpu_seconds));
            runs.swap_remove(RUNS / 2)
        });
        let one = medians[0].cpu_seconds;
        for (rules, taken) in RULES.iter().zip(&medians) {
            rows.push(vec![
                Cell::Text(pace.name.to_owned()),
                Cell::Count(*rules as u64),
                Cell::Number(taken.cpu_seconds, 2),
                Cell::Number(taken.cpu_seconds / one, 1),
                Cell::Number(taken.cpu_seconds * 1e6 / pace.events as f64 / *rules as f64, 2),
                Cell::Number(taken.seconds, 1),
                Cell::Count(taken.blocks_keyed),
            ]);
        }
        let points = RULES.iter().zip(&medians).map(|(&rules, taken)| (rules as f64, taken.cpu_seconds / one));
        lines.push(Line::new(pace.name, points.collect()));
    }
    lines.push(Line::new("nothing shared", RULES.map(|rules| (rules as f64, rules as f64)).to_vec()));
    let columns =
        vec!["events come", "rules", "CPU s", "times one rule", "CPU µs/event and rule", "seconds", "blocks keyed"];
    Ok(Report {
        name: "rules",
        what: format!("card-sessions over one stream, {} keys, as in a service", short(bench.size(KEYS))),
        columns,
        rows,
        plot: Some(Plot {
            title: "Processor time of rules on one stream",
            x: Axis { title: "rules", scale: Scale::Log },
            y: Axis { title: "times the processor time of one rule", scale: Scale::Log },
            lines,
            legend: SeriesLabelPosition::UpperLeft,
        }),
    })
}

fn run(bench: &Bench, count: usize, pace: Pace) -> Result<Taken> {
    let served = Served::open(bench.scratch(), "card-sessions")?;
    let input = served.stream("payments")?;
    let make = |number: usize| {
        let name = format!("rule-{number}");
        let output = SinkSettings::Stream { log: served.stream(&format!("{name}.outputs"))?, name: name.clone() };
        Ok(served.rule(&name, Some("/ts"), &input, output, pace.batch_events))
    };
    let rules: Vec<_> = (0..count).map(make).collect::<Result<_>>()?;
    let mut payments = Payments::new(bench.size(KEYS), Share::ZERO);
    append(&input, payments.drawn(REQUEST as u64))?;
    served.wait_for(&rules, REQUEST as u64)?;
    let (lines, keyed) = (payments.drawn(pace.events), served.blocks_keyed());
    let (cpu, started) = (process::own_cpu()?, Instant::now());
    let mut requests = 0;
    let mut lines = lines.into_iter();
    while lines.len() > 0 {
        let due = started + pace.interval * requests;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        append(&input, lines.by_ref().take(pace.request).collect())?;
        requests += 1;
    }
    served.wait_for(&rules, REQUEST as u64 + pace.events)?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = process::own_cpu()? - cpu;
    let blocks_keyed = served.blocks_keyed() - keyed;
    // A request is a block. It is keyed once however many rules read it, or again when so much was written meanwhile that it was let go.
    ensure!(
        blocks_keyed <= 2 * u64::from(requests),
        "{requests} blocks were keyed {blocks_keyed} times by {count} rules"
    );
    let keys: Vec<u64> = rules.iter().map(|rule| rule.status().keys).collect();
    ensure!(keys.iter().all(|of| *of == keys[0] && *of > 0), "equal rules have different numbers of keys: {keys:?}");
    served.close(rules)?;
    Ok(Taken { cpu_seconds, seconds, blocks_keyed })
}

fn append(log: &StreamLog, lines: Vec<Vec<u8>>) -> Result<()> {
    let events = lines.into_iter().map(|line| NewEvent::new(line).map_err(|refusal| anyhow!(refusal.message)));
    let events = events.collect::<Result<_>>()?;
    log.append(AppendRequest { events, ..AppendRequest::default() }).context("the stream refuses events")?;
    Ok(())
}
