//! A crash leaves half a commit, cut at any byte: what was answered before it stays, and of the commit all or nothing.

use super::scene::{Scene, append, events, numbers};
use crate::support::folder;
use keyfold::stream::StreamSettings;
use std::fs;
use std::path::Path;

fn cut(path: &Path, bytes: usize) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("it is there");
    file.set_len(bytes as u64).expect("it can be cut");
}

#[test]
fn a_commit_that_is_cut_at_any_byte_is_thrown_away_and_the_stream_goes_on() {
    // Several blocks in each commit.
    let scene = Scene::small(StreamSettings::default(), 1 << 20, 100);
    let log = scene.open();
    append(&log, events(0..10));
    let path = scene.segments(0).remove(0);
    let kept = fs::read(&path).expect("it is there").len();
    append(&log, events(10..18));
    drop(log);
    let whole = fs::read(&path).expect("it is there");
    for bytes in kept..=whole.len() {
        for rest in [&[][..], &[0; 100], &[0xff; 3]] {
            fs::write(&path, [&whole[..bytes], rest].concat()).expect("it can be written");
            let log = scene.open();
            let there = if bytes == whole.len() { 18 } else { 10 };
            assert_eq!(numbers(&log, 0), (0..there).collect::<Vec<_>>(), "cut at {bytes}");
            append(&log, events([100, 101]));
            drop(log);
            let log = scene.open();
            let expected: Vec<u64> = (0..there).chain([100, 101]).collect();
            assert_eq!(numbers(&log, 0), expected, "after another commit behind {bytes}");
        }
    }
    println!("{} places", whole.len() - kept);
}

#[test]
fn pages_of_the_last_commit_may_be_missing_in_its_middle() {
    let scene = Scene::small(StreamSettings::default(), 1 << 20, 100);
    let log = scene.open();
    append(&log, events(0..10));
    let path = scene.segments(0).remove(0);
    let kept = fs::read(&path).expect("it is there").len();
    append(&log, events(10..30));
    drop(log);
    let whole = fs::read(&path).expect("it is there");
    assert!(whole.len() > kept + 600, "the commit has several blocks");
    for from in (kept..whole.len()).step_by(7) {
        let mut torn = whole.clone();
        let to = whole.len().min(from + 50);
        torn[from..to].fill(0);
        if torn == whole {
            continue;
        }
        fs::write(&path, torn).expect("it can be written");
        assert_eq!(numbers(&scene.open(), 0), (0..10).collect::<Vec<_>>(), "without bytes {from} to {to}");
    }
}

#[test]
fn a_first_commit_that_is_torn_leaves_an_empty_stream() {
    let scene = Scene::new(StreamSettings::default());
    let log = scene.open();
    append(&log, events(0..1));
    drop(log);
    let path = scene.segments(0).remove(0);
    let whole = fs::read(&path).expect("it is there").len();
    cut(&path, whole - 1);
    let log = scene.open();
    assert!(numbers(&log, 0).is_empty());
    assert_eq!(log.oldest(), None);
    append(&log, events(7..9));
    drop(log);
    assert_eq!(numbers(&scene.open(), 0), [7, 8]);
}

#[test]
fn a_segment_that_was_not_finished_is_thrown_away() {
    let scene = Scene::new(StreamSettings::default());
    append(&scene.open(), events(0..3));
    let unfinished = scene.path().join("0/00000000000000000003.seg.unfinished");
    fs::write(&unfinished, "half").expect("it can be written");
    assert_eq!(numbers(&scene.open(), 0), [0, 1, 2]);
    assert!(!unfinished.exists());
    assert_eq!(folder::files(&scene.path().join("0")).len(), 1);
}
