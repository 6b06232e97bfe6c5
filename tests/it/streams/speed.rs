//! How fast events are taken and read: printed, and far above what a test on a loaded machine could miss.

use super::scene::{ALL, Scene, batches, source, try_append};
use keyfold::stream::{NewEvent, StreamSettings};
use std::time::Instant;

const REQUESTS: u64 = 300;
const EVENTS: u64 = 1000;

fn body(request: u64) -> Vec<NewEvent> {
    let event = |number: u64| {
        format!(
            r#"{{"id":"tx-{number:09}","user_id":"user-{:06}","ts":{},"amount_minor":{},"country":"CH","mcc":"5411","device":"web"}}"#,
            number * 7919 % 100_000,
            1_767_571_200_000 + number,
            100 + number % 70_000
        )
    };
    (request * EVENTS..(request + 1) * EVENTS).map(|number| NewEvent::new(event(number)).expect("it is JSON")).collect()
}

#[test]
fn a_hundred_thousand_events_a_second_in_bodies_of_a_thousand_are_no_problem() {
    let scene =
        Scene { folder: tempfile::tempdir().expect("a folder can be made"), ..Scene::new(StreamSettings::default()) };
    let log = scene.open();
    let started = Instant::now();
    let bodies: Vec<_> = (0..REQUESTS).map(body).collect();
    let made = started.elapsed();
    let started = Instant::now();
    for body in bodies {
        try_append(&log, body).unwrap_or_else(|error| panic!("{error}"));
    }
    let took = started.elapsed();
    let events = REQUESTS * EVENTS;
    let per_second = |took: std::time::Duration| events as f64 / took.as_secs_f64();
    println!(
        "{events} events of one thread: {:.0}/s made, {:.0}/s appended with {} syncs; {} bytes as {} on the disk",
        per_second(made),
        per_second(took),
        log.counts().syncs,
        log.ends()[0].offset,
        log.bytes()
    );
    drop(log);
    // With an empty cache.
    let scene = Scene { limits: Default::default(), ..scene };
    let log = scene.open();
    let started = Instant::now();
    let records: usize = batches(&mut source(&log), keyfold::source::ReadLimit { records_max: 10_000, ..ALL })
        .iter()
        .map(|batch| batch.records.len())
        .sum();
    println!("{:.0}/s read from the disk", per_second(started.elapsed()));
    assert_eq!(records as u64, events);
    // A loaded machine may be ten times as slow as this one.
    assert!(per_second(took) > 10_000.0, "{took:?}");
}
