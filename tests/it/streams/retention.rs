//! Retention: by age and by size, never past what somebody needs, and who needs it is said.

use super::scene::{Scene, append, batches, events, numbers, source};
use keyfold::event::{Position, RecordBatch};
use keyfold::source::Source;
use keyfold::stream::{EventNumber, Held, Retention, StreamLog, StreamSettings};
use std::sync::Arc;
use std::time::Duration;

fn settings(age_s: Option<u64>, bytes: Option<u64>) -> StreamSettings {
    StreamSettings { retention: Retention { age: age_s.map(Duration::from_secs), bytes }, ..StreamSettings::default() }
}

/// An event a second, in small segments.
fn filled(scene: &Scene, count: u64) -> Arc<StreamLog> {
    let log = scene.open();
    for number in 0..count {
        append(&log, events([number]));
        scene.pass(1000);
    }
    log
}

fn at(log: &StreamLog, number: u64) -> Vec<Position> {
    vec![log.position_of(0, EventNumber(number)).expect("it is there")]
}

#[test]
fn nothing_is_deleted_without_a_limit() {
    let scene = Scene::small(settings(None, None), 500, 100);
    let log = filled(&scene, 30);
    assert_eq!(log.retain(&[]).expect("nothing is wrong").segments, 0);
    assert_eq!(log.starts(), [Position::default()]);
}

#[test]
fn what_is_older_than_its_age_is_deleted_with_its_file_and_stays_away_after_a_restart() {
    let scene = Scene::small(settings(Some(40), None), 500, 100);
    let log = filled(&scene, 100);
    let (bytes, files) = (log.bytes(), scene.segments(0).len());
    let retained = log.retain(&[]).expect("nothing is wrong");
    let start = log.starts()[0];
    // Whole files only: a few events stay longer than they should, none goes earlier.
    assert!((50..=60).contains(&start.line), "{start:?}");
    assert_eq!((retained.events, retained.bytes), (start.line, bytes - log.bytes()));
    assert_eq!(scene.segments(0).len(), files - retained.segments as usize);
    assert_eq!(numbers(&log, 0), (start.line..100).collect::<Vec<_>>());
    assert!(log.oldest().is_some_and(|oldest| oldest.0 >= 1_000_000 + 1000 * (start.line as i64 - 1)));
    drop(log);
    let log = scene.open();
    assert_eq!(log.starts(), [start]);
    assert_eq!(numbers(&log, 0), (start.line..100).collect::<Vec<_>>());
    let error =
        format!("{:#}", source(&log).replay(&[range(0, 1)], &mut RecordBatch::default()).expect_err("it is gone"));
    assert!(error.contains("is deleted; the first one is"), "{error}");
}

fn range(from: u64, to: u64) -> keyfold::event::OffsetRange {
    let place = |line| Position { offset: 0, line };
    keyfold::event::OffsetRange { input: Default::default(), file: "0".to_owned(), from: place(from), to: place(to) }
}

#[test]
fn a_stream_that_gets_nothing_any_more_becomes_empty_when_all_is_too_old() {
    let scene = Scene::new(settings(Some(40), None));
    let log = filled(&scene, 3);
    assert_eq!(log.retain(&[]).expect("nothing is wrong").segments, 0);
    scene.pass(100_000);
    // The file that is written to is followed by another one before it goes.
    assert_eq!(log.retain(&[]).expect("nothing is wrong").segments, 1);
    assert_eq!(scene.segments(0).len(), 1);
    assert_eq!((log.starts(), log.ends()[0].line, log.oldest()), (log.ends(), 3, None));
    append(&log, events([7]));
    drop(log);
    let log = scene.open();
    assert_eq!((numbers(&log, 0), log.starts()[0].line), (vec![7], 3));
}

#[test]
fn above_its_size_the_oldest_go_first() {
    let scene = Scene::small(settings(None, Some(3000)), 500, 100);
    let log = filled(&scene, 200);
    assert!(log.bytes() > 10_000);
    log.retain(&[]).expect("nothing is wrong");
    assert!((2000..=3000).contains(&log.bytes()), "{} bytes", log.bytes());
    assert_eq!(numbers(&log, 0).last(), Some(&199));
    assert_eq!(log.retain(&[]).expect("nothing is wrong").segments, 0);
}

#[test]
fn what_somebody_needs_stays_and_is_told_to_be_held() {
    for settings in [settings(Some(10), None), settings(None, Some(600))] {
        let scene = Scene::small(settings, 500, 100);
        let log = filled(&scene, 60);
        let need = |by: &str, number| (by.to_owned(), at(&log, number));
        let needed = [need("fast", 58), need("slow", 20), need("slower", 17)];
        let retained = log.retain(&needed).expect("nothing is wrong");
        let start = log.starts()[0].line;
        assert!((10..=17).contains(&start), "{start}");
        let held = |by: &str| retained.held.iter().find(|held| held.by == by).map(|held| held.bytes);
        assert!(held("slow").is_some_and(|bytes| bytes > 1000) && held("slower") >= held("slow"), "{retained:?}");
        assert!(held("fast").is_none_or(|bytes| Some(bytes) < held("slow")), "{retained:?}");
        let mut reader = source(&log);
        reader.seek(&[((Default::default(), "0".to_owned()), at(&log, 17)[0])].into()).expect("it was kept");
        assert_eq!(batches(&mut reader, super::scene::ALL)[0].records.len(), 43);
        // They have moved on.
        let needed = [need("fast", 60), need("slow", 60), need("slower", 60)];
        let retained = log.retain(&needed).expect("nothing is wrong");
        assert!(retained.segments > 3 && retained.held.is_empty(), "{retained:?}");
    }
}

#[test]
fn of_a_partition_for_which_somebody_names_no_position_all_stays() {
    let scene = Scene::small(settings(Some(10), None), 500, 100);
    let log = filled(&scene, 60);
    let retained = log.retain(&[("new".to_owned(), Vec::new())]).expect("nothing is wrong");
    assert_eq!(retained.segments, 0);
    assert!(matches!(&retained.held[..], [Held { by, partition: 0, .. }] if by == "new"), "{retained:?}");
}

#[test]
fn retention_can_be_changed_and_partitions_cannot() {
    let scene = Scene::small(settings(None, None), 500, 100);
    let log = filled(&scene, 60);
    log.set_settings(settings(Some(10), None)).expect("it can be changed");
    assert!(log.retain(&[]).expect("nothing is wrong").segments > 3);
    let two = StreamSettings { partitions: 2, key: Some("/k".to_owned()), ..settings(None, None) };
    let error = format!("{:#}", log.set_settings(two).expect_err("it cannot be changed"));
    assert!(error.contains("partitions of a stream cannot change"), "{error}");
}

#[test]
fn readers_and_writers_go_on_while_segments_are_deleted() {
    let scene = Scene::small(settings(None, Some(4000)), 500, 100);
    let log = scene.open();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..600).for_each(|number| drop(append(&log, events([number])))));
        let deleter = scope.spawn(|| {
            while log.ends()[0].line < 600 {
                log.retain(&[]).expect("nothing is wrong");
            }
        });
        let mut seen = 0;
        while log.ends()[0].line < 600 {
            match log.read(0, EventNumber(seen), super::scene::ALL) {
                Ok(stored) => {
                    assert!(stored.iter().all(|event| event.number.0 >= seen));
                    seen = stored.last().map_or(seen, |event| event.number.0 + 1);
                }
                // It was deleted between looking and reading.
                Err(error) => assert!(format!("{error:#}").contains("is deleted"), "{error:#}"),
            }
        }
        writer.join().and(deleter.join()).expect("nobody panics");
    });
}
