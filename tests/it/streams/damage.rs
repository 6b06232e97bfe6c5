//! Files that no longer hold what was written: the file and the place are named, and nothing wrong is read.

use super::scene::{ALL, Scene, append, batches, events, numbers, source};
use keyfold::event::RecordBatch;
use keyfold::source::Source;
use keyfold::stream::{EventNumber, StreamSettings};
use std::fs;
use std::path::Path;

fn flip(path: &Path, at: usize) -> Vec<u8> {
    let whole = fs::read(path).expect("it is there");
    let mut damaged = whole.clone();
    damaged[at] ^= 4;
    fs::write(path, damaged).expect("it can be written");
    whole
}

#[test]
fn every_flipped_byte_before_the_last_commit_is_damage_that_names_file_and_byte() {
    let scene = Scene::new(StreamSettings::default());
    let log = scene.open();
    append(&log, events(0..3));
    let path = scene.segments(0).remove(0);
    let first = fs::read(&path).expect("it is there").len();
    append(&log, events(3..5));
    drop(log);
    for at in 0..first {
        let whole = flip(&path, at);
        let error = format!("{:#}", scene.try_open().err().unwrap_or_else(|| panic!("byte {at} was not missed")));
        let name = path.display().to_string();
        assert!(error.contains(&name) && error.contains("is damaged at byte"), "byte {at}: {error}");
        fs::write(&path, whole).expect("it can be written");
    }
    assert_eq!(numbers(&scene.open(), 0), [0, 1, 2, 3, 4]);
}

#[test]
fn a_damaged_block_of_an_older_file_is_found_when_it_is_read_and_what_is_before_it_can_be() {
    let scene = Scene::small(StreamSettings::default(), 500, 100);
    let log = scene.open();
    (0..30).for_each(|number| drop(append(&log, events([number]))));
    drop(log);
    let older = scene.segments(0).remove(1);
    let bytes = fs::read(&older).expect("it is there").len();
    let mut named = 0;
    for at in 0..bytes {
        let whole = flip(&older, at);
        let attempt = scene.try_open().and_then(|log| log.read(0, EventNumber(0), ALL));
        let error = format!("{:#}", attempt.err().unwrap_or_else(|| panic!("byte {at} was not missed")));
        assert!(error.contains(&older.display().to_string()), "byte {at}: {error}");
        named += usize::from(error.contains("is damaged at byte"));
        fs::write(&older, whole).expect("it can be written");
    }
    assert_eq!(named, bytes, "all are damage");
    flip(&older, bytes - 1);
    let log = scene.open();
    let before = log.read(0, EventNumber(0), keyfold::source::ReadLimit { records_max: 3, bytes_max: 1 << 20 });
    assert_eq!(before.expect("they are whole").len(), 3);
    let mut reader = source(&log);
    let mut batch = RecordBatch::default();
    let error = format!("{:#}", reader.read(ALL, &mut batch).expect_err("a block is damaged"));
    assert!(error.contains("is damaged"), "{error}");
    assert!(batch.records.is_empty() && batch.ranges.is_empty() && batch.text.is_empty(), "a failed read adds nothing");
}

#[test]
fn an_older_file_that_is_cut_or_gone_is_damage() {
    let scene = Scene::small(StreamSettings::default(), 500, 100);
    let log = scene.open();
    (0..30).for_each(|number| drop(append(&log, events([number]))));
    drop(log);
    let older = scene.segments(0).remove(1);
    let whole = fs::read(&older).expect("it is there");
    let read = || {
        let log = scene.open();
        log.read(0, EventNumber(0), ALL).map(|events| events.len())
    };
    for bytes in (80..whole.len()).step_by(11) {
        fs::write(&older, &whole[..bytes]).expect("it can be written");
        let error = format!("{:#}", read().expect_err("events are missing"));
        assert!(error.contains("is damaged at byte"), "cut at {bytes}: {error}");
    }
    fs::remove_file(&older).expect("it is there");
    let error = format!("{:#}", read().expect_err("events are missing"));
    assert!(error.contains("is damaged at byte"), "{error}");
}

#[test]
fn a_rule_that_has_read_events_which_are_gone_is_told() {
    let scene = Scene::new(StreamSettings::default());
    let log = scene.open();
    append(&log, events(0..3));
    append(&log, events(3..9));
    let ranges: Vec<_> = batches(&mut source(&log), ALL).remove(0).ranges;
    drop(log);
    // The last commit is damaged: as nothing comes after it, it looks like one that a crash cut.
    let path = scene.segments(0).remove(0);
    let bytes = fs::read(&path).expect("it is there").len();
    flip(&path, bytes - 1);
    let log = scene.open();
    assert_eq!(numbers(&log, 0), [0, 1, 2]);
    let read = ranges.iter().map(|range| ((range.input, range.file.clone()), range.to)).collect();
    let error = format!("{:#}", source(&log).seek(&read).expect_err("six events are gone"));
    assert!(error.contains("the rule has read 9 already: events were lost"), "{error}");
}
