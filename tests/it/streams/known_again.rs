//! What comes again is taken once: by its id, by its `Idempotency-Key`, by its producer's batch; also over restarts.

use super::scene::{Scene, append, event, events, numbers};
use keyfold::stream::{AppendError, AppendRequest, Appended, Dedup, NewEvent, Retention, StreamLog, StreamSettings};
use std::sync::Arc;

fn with_key(log: &StreamLog, key: &str, events: Vec<NewEvent>) -> Result<Appended, AppendError> {
    log.append(AppendRequest { events, idempotency_key: Some(key.to_owned()), ..AppendRequest::default() })
}

fn of_producer(log: &StreamLog, producer: &str, batch: u64, events: Vec<NewEvent>) -> Appended {
    let producer = Some((producer.to_owned(), batch));
    log.append(AppendRequest { events, producer, ..AppendRequest::default() }).unwrap_or_else(|error| panic!("{error}"))
}

fn settings(partitions: u32, id: Option<&str>) -> StreamSettings {
    let dedup = Dedup { id: id.map(str::to_owned), ..Dedup::default() };
    StreamSettings { partitions, key: Some("/k".to_owned()), dedup, ..StreamSettings::default() }
}

#[test]
fn an_event_whose_id_is_known_is_counted_and_not_taken() {
    for partitions in [1, 3] {
        let scene = Scene::small(settings(partitions, Some("/n")), 2000, 200);
        let log = scene.open();
        let appended = append(&log, events([1, 2, 3, 2, 1]));
        assert_eq!((appended.accepted, appended.duplicates, appended.placed.len()), (3, 2, 3));
        let mut log = log;
        for number in 4..60 {
            let appended = append(&log, events([number - 3, number - 2, number, number - 1]));
            assert_eq!((appended.accepted, appended.duplicates), (1, 3), "event {number}");
            assert_eq!(appended.placed[0].index, 2);
            if number % 10 == 0 {
                drop(log);
                log = scene.open();
            }
        }
        let mut found: Vec<u64> = (0..partitions).flat_map(|partition| numbers(&log, partition)).collect();
        found.sort_unstable();
        assert_eq!(found, (1..60).collect::<Vec<_>>());
    }
}

#[test]
fn an_id_that_an_event_brings_is_as_good_as_one_in_it_and_without_ids_nothing_is_dropped() {
    let scene = Scene::new(StreamSettings::default());
    let log = scene.open();
    let named = |number, id: &str| event(number).with_id(id);
    append(&log, vec![named(1, "a"), named(2, "b"), event(3), event(3)]);
    drop(log);
    let log = scene.open();
    let appended = append(&log, vec![named(4, "b"), named(5, "c"), event(3)]);
    assert_eq!((appended.accepted, appended.duplicates), (2, 1));
    assert_eq!(numbers(&log, 0), [1, 2, 3, 3, 5, 3]);
}

#[test]
fn so_many_ids_are_remembered_as_the_settings_say_also_after_a_restart() {
    let mut scene = Scene::small(settings(1, Some("/n")), 1000, 200);
    scene.settings.dedup.events = 10;
    let log = scene.open();
    append(&log, events(0..30));
    let again = |log: &StreamLog, number| append(log, events([number])).duplicates == 1;
    assert!(again(&log, 20) && again(&log, 29));
    drop(log);
    let log = scene.open();
    assert!(again(&log, 29) && again(&log, 20), "the last ten are known");
    assert!(!again(&log, 19), "the eleventh is not");
    log.set_settings(StreamSettings {
        dedup: Dedup { events: 1, ..scene.settings.dedup.clone() },
        ..scene.settings.clone()
    })
    .expect("it can be changed");
    assert!(again(&log, 19) && !again(&log, 29));
}

#[test]
fn a_request_with_a_known_key_gets_the_first_answer_and_adds_nothing() {
    for partitions in [1, 3] {
        for id in [None, Some("/n")] {
            let scene = Scene::small(settings(partitions, id), 1500, 150);
            let mut log = scene.open();
            append(&log, events([3, 4, 13]));
            let mut firsts = Vec::new();
            for number in 0..20 {
                let body = || events(number * 2..number * 2 + 12);
                let key = format!("key-{number}");
                let first = with_key(&log, &key, body()).expect("it is new");
                assert!(!first.repeated);
                firsts.push((key, body(), first));
            }
            let end = log.ends();
            for _ in 0..2 {
                for (key, body, first) in &firsts {
                    let again = with_key(&log, key, body.clone()).expect("it is the same");
                    // A request in which nothing was new left nothing behind; it comes again with the same answer.
                    let repeated = first.accepted > 0;
                    assert_eq!(again, Appended { repeated, ..first.clone() }, "{key} of {partitions} partitions");
                }
                drop(log);
                log = scene.open();
            }
            assert_eq!(log.ends(), end);
        }
    }
}

#[test]
fn a_key_with_other_events_is_refused_and_so_is_one_that_is_none() {
    let scene = Scene::new(settings(3, None));
    let mut log = scene.open();
    with_key(&log, "a", events([1])).expect("it is new");
    for _ in 0..2 {
        let error = with_key(&log, "a", events([2])).expect_err("another body");
        assert_eq!(error.code(), "idempotency-key-reused");
        drop(log);
        log = scene.open();
    }
    assert_eq!(with_key(&log, "", events([2])).expect_err("it is empty").code(), "idempotency-key-invalid");
    assert_eq!(log.ends().iter().map(|end| end.line).sum::<u64>(), 1);
}

#[test]
fn the_same_request_from_many_threads_at_once_is_taken_once() {
    let scene = Scene::new(settings(1, None));
    let log = scene.open();
    let begin = std::sync::Barrier::new(12);
    let answers: Vec<Appended> = std::thread::scope(|scope| {
        let append = || {
            begin.wait();
            with_key(&log, "once", events(0..5)).expect("it is the same")
        };
        let threads: Vec<_> = (0..12).map(|_| scope.spawn(append)).collect();
        threads.into_iter().map(|thread| thread.join().expect("nobody panics")).collect()
    });
    assert_eq!(answers.iter().filter(|answer| !answer.repeated).count(), 1);
    assert!(answers.iter().all(|answer| answer.placed == answers[0].placed && answer.accepted == 5));
    assert_eq!(numbers(&log, 0), [0, 1, 2, 3, 4]);
}

#[test]
fn a_producers_batch_is_taken_once_also_when_all_that_it_put_out_is_deleted() {
    let retention = Retention { bytes: Some(1), age: None };
    let scene = Scene::small(StreamSettings { retention, ..settings(1, None) }, 400, 200);
    let mut log = scene.open();
    for batch in 0..40 {
        assert_eq!(of_producer(&log, "rule", batch, events([batch])).accepted, 1);
        let again = of_producer(&log, "rule", batch, events([batch]));
        assert_eq!((again.accepted, again.duplicates), (0, 1));
        if batch > 0 {
            let earlier = of_producer(&log, "rule", batch - 1, events([batch - 1]));
            assert_eq!((earlier.accepted, earlier.duplicates), (0, 1));
        }
        of_producer(&log, "other", batch / 7, events([1000 + batch]));
        if batch % 5 == 0 {
            log.retain(&[]).expect("nobody needs anything");
            drop(log);
            log = scene.open();
        }
    }
    assert!(log.starts()[0].line > 30, "{:?}", log.starts());
    // Long after all of it is deleted.
    (0..50).for_each(|number| drop(append(&log, events([number]))));
    log.retain(&[]).expect("nobody needs anything");
    drop(log);
    let log = scene.open();
    assert_eq!(of_producer(&log, "other", 5, events([1])).duplicates, 1);
    assert_eq!(of_producer(&log, "rule", 39, events([39])).duplicates, 1);
    assert_eq!(of_producer(&log, "rule", 40, events([40])).accepted, 1);
}

#[test]
fn what_a_crash_left_in_some_partitions_only_is_completed_when_the_request_comes_again() {
    let scene = Scene::new(settings(3, None));
    let log = scene.open();
    append(&log, events(0..30));
    with_key(&log, "key", events(100..130)).expect("it is new");
    of_producer(&log, "rule", 1, events(200..230));
    let all = |log: &Arc<StreamLog>| -> Vec<Vec<u64>> { (0..3).map(|partition| numbers(log, partition)).collect() };
    let whole = all(&log);
    drop(log);
    // The last two commits did not reach partition 1.
    let path = scene.segments(1).remove(0);
    let bytes = std::fs::read(&path).expect("it is there");
    let magic = [0xff, b'K', b'F', 0xfe];
    let commits: Vec<usize> = (0..bytes.len() - 4).filter(|&at| bytes[at..at + 4] == magic).collect();
    std::fs::write(&path, &bytes[..commits[1]]).expect("it can be written");
    let log = scene.open();
    assert_ne!(all(&log), whole);
    let answer = with_key(&log, "key", events(100..130)).expect("it is the same");
    assert_eq!((answer.accepted, answer.repeated), (30, false));
    let answer = of_producer(&log, "rule", 1, events(200..230));
    assert_eq!(answer.accepted + answer.duplicates, 30);
    assert!(answer.accepted > 0 && answer.duplicates > 0, "{answer:?}");
    assert_eq!(all(&log), whole);
}
