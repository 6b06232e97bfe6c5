//! The power fails, and what was not synced is lost in whole or in part.

use crate::support::deliveries::{Deliveries, Delivery};
use crate::support::host::Stream;
use crate::support::vfs::{Disk, Event, Watch};
use crate::support::{few, folder};
use keyfold::r#gen::Random;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Another seed loses power at other moments, and other writes.
const SEED: u64 = 20_260_106;
/// How often power is lost in each run.
const LOSSES: u32 = 80;

/// A run that was watched.
struct Recording {
    /// The files that it began with.
    disk: Disk,
    events: Vec<Event>,
    /// What the sink had at the end, each batch with the moment in which it came.
    delivered: BTreeMap<u64, Delivery>,
}

/// A run over a new folder, with the sink that it had so far.
fn record(stream: &Stream, delivered: BTreeMap<u64, Delivery>) -> Recording {
    let disk = Disk::of_folder(&stream.data);
    let watch = Arc::new(Watch::recording(&stream.data));
    let sink = Deliveries { watch: Some(Arc::clone(&watch)), ..Deliveries::with(delivered) };
    stream.run_with(Box::new(sink.clone())).unwrap_or_else(|error| panic!("{error:#}"));
    Recording { disk, events: watch.take_events(), delivered: sink.all() }
}

fn stream(work: &Path, name: &str) -> Stream {
    Stream { event_time: Some("/ts"), batch_events: 9, ..Stream::of_example("card-sessions", work, name) }
}

/// Panics unless SQLite finds nothing wrong with the files. They are copied first: opening them repairs what a crash left.
fn check_files(data: &Path, copy: &Path, why: &str) {
    folder::copy(data, copy);
    for name in folder::files(copy).into_keys().filter(|name| name.ends_with(".db")) {
        let open = Connection::open(copy.join(&name)).unwrap_or_else(|error| panic!("{name} {why}: {error}"));
        let found: String = open
            .query_row("PRAGMA quick_check", [], |row| row.get(0))
            .unwrap_or_else(|error| panic!("{name} {why}: {error}"));
        assert_eq!(found, "ok", "{name} {why}");
    }
    check_plans(copy, why);
}

/// Panics when a partition has committed a batch that is not planned: after it, another batch could get its number.
fn check_plans(copy: &Path, why: &str) {
    let number = |name: &str, query: &str| -> Option<u64> {
        // A file that was not made yet has no tables.
        let open = Connection::open(copy.join(name)).ok()?;
        open.query_row(query, [], |row| row.get(0)).optional().ok().flatten()
    };
    let planned = number("plan.db", "SELECT batch FROM plan ORDER BY batch DESC LIMIT 1");
    for name in folder::files(copy).into_keys().filter(|name| name.starts_with("partition-") && name.ends_with(".db")) {
        let committed = number(&name, "SELECT value FROM meta WHERE name = 'batch'");
        assert!(committed <= planned, "{name} has batch {committed:?}, the last plan is {planned:?}, {why}");
    }
}

/// Loses power at many moments of a run, and each time lets the next run go to its end.
fn lose_power(undisturbed: &Stream, expected: &BTreeMap<u64, String>, recorded: &Stream, run: Recording) {
    let Recording { mut disk, events, delivered } = run;
    assert!(events.len() > 100, "{} events are too few to be cut in many places", events.len());
    println!("seed {SEED}, {} events", events.len());
    let mut random = Random::new(SEED, 0);
    let mut moments: Vec<usize> = (0..LOSSES).map(|_| random.below(events.len() as u32 + 1) as usize).collect();
    moments.sort_unstable();
    let mut seen = 0;
    for (number, moment) in (0..).zip(moments) {
        events[seen..moment].iter().for_each(|event| disk.see(event));
        seen = moment;
        let place = folder::fast();
        let why = format!("after loss {number} at event {moment}");
        let stream = Stream { data: place.path().join("data"), ..undisturbed.clone() };
        disk.lose_power(SEED + number, &stream.data);
        let kept = recorded.data.join("components");
        if kept.exists() {
            folder::copy(&kept, &stream.data.join("components"));
        }
        check_files(&stream.data, &place.path().join("copy"), &why);
        // What came at this very moment may have come before or after.
        let until = moment + usize::from(number % 2 == 0);
        let had = delivered.iter().filter(|(_, delivery)| delivery.moment < until);
        let sink = Deliveries::with(had.map(|(batch, delivery)| (*batch, delivery.clone())).collect());
        stream.run_with(Box::new(sink.clone())).unwrap_or_else(|error| panic!("{why}: {error:#}"));
        assert_eq!(sink.lines(), *expected, "other outputs {why}");
        assert_eq!(stream.states(), undisturbed.states(), "other states {why}");
        assert_eq!(stream.dead_letters(), undisturbed.dead_letters(), "other dead letters {why}");
        check_files(&stream.data, &place.path().join("end"), &why);
    }
}

#[test]
fn a_loss_of_power_at_any_moment_loses_nothing_and_doubles_nothing() {
    let work = folder::fast();
    few::write(&work.path().join("input"), &few::payments(60), 2);
    let undisturbed = stream(work.path(), "undisturbed");
    let sink = Deliveries::default();
    undisturbed.run_with(Box::new(sink.clone())).unwrap_or_else(|error| panic!("{error:#}"));
    let expected = sink.lines();
    assert!(expected.len() > 4 && !undisturbed.dead_letters().is_empty(), "{expected:?}");

    let fresh = stream(work.path(), "fresh");
    let run = record(&fresh, BTreeMap::new());
    lose_power(&undisturbed, &expected, &fresh, run);

    // While a run goes on that a crash has stopped before.
    let stopped = stream(work.path(), "stopped");
    let sink = Deliveries { refuses: expected.keys().nth(1).copied(), ..Deliveries::default() };
    stopped.run_with(Box::new(sink.clone())).expect_err("the sink does not take a batch");
    let run = record(&stopped, sink.all());
    lose_power(&undisturbed, &expected, &stopped, run);
}
