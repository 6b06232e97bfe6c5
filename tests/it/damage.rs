//! Files that no longer hold what was written to them: it is seen, and the message says what to do.

use crate::support::folder;
use crate::support::rules::{Setup, Trial, event, example};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// So many batches fold every key group into the table.
const ROTATION: u64 = 258;
/// SQLite's default.
const PAGE_BYTES: usize = 4096;
const REMEDY: &str = "keyfold restore";

/// The rule that counts the events of each key. Without history the table alone holds the states once they are folded.
fn counting() -> Setup {
    Setup { history_batches: 0, ..Setup::new(example("running-count")) }
}

/// A host with many keys, all of them folded.
fn folded() -> Trial {
    let mut trial = counting().open();
    let keys: Vec<String> = (0..2000).map(|number| event(&format!("key-{number:04}"), 1)).collect();
    trial.run(&keys);
    for _ in 0..ROTATION {
        trial.run(&[event("other", 1)]);
    }
    trial
}

/// Changes the pages of a file that have this text, and fails when there is none.
fn spoil(path: &Path, text: &[u8], change: impl Fn(&mut [u8], usize)) {
    let mut bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut found = 0;
    for page in bytes.chunks_mut(PAGE_BYTES) {
        while let Some(at) = (0..page.len() - text.len()).find(|&at| page[at..].starts_with(text)) {
            found += 1;
            change(page, at);
            if page[at..].starts_with(text) {
                break;
            }
        }
    }
    assert!(found > 0, "{} has no such text", path.display());
    fs::write(path, bytes).expect("the disk has room");
}

/// A copy of a folder while its host has it open: as a crash of the machine leaves it.
fn as_a_crash_leaves(trial: &Trial) -> TempDir {
    let copy = tempfile::tempdir().expect("a folder can be made");
    folder::copy(trial.path(), copy.path());
    copy
}

/// Closes the host and opens another one, so that the log is empty, and writes a little.
fn reopened(trial: Trial) -> Trial {
    let mut trial = counting().open_in(trial.close());
    trial.run(&[event("other", 1)]);
    trial
}

fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "the message lacks '{part}': {error}");
    }
}

#[test]
fn a_state_of_which_a_bit_changed_stops_the_rule_and_the_message_names_the_key() {
    let folder = folded().close();
    // The byte after the key is the first one of the state: 1 becomes 0, which is a count as good as any.
    spoil(&folder.path().join("partition-0000.db"), b"key-1000", |page, at| page[at + 8] ^= 1);
    let mut trial = counting().open_in(folder);
    trial.run(&[event("key-1001", 2)]);
    let error = trial.fail(&[event("key-1000", 2)]);
    assert_says(
        &error,
        &["partition-0000.db", "(partition 0)", "is damaged", "the key 'key-1000'", "checksum", REMEDY],
    );
}

#[test]
fn a_file_that_was_not_closed_in_order_is_checked_when_it_is_opened() {
    let trial = reopened(folded());
    let crashed = as_a_crash_leaves(&trial);
    drop(counting().open_in(crashed));

    let damaged = as_a_crash_leaves(&trial);
    let file = damaged.path().join("partition-0000.db");
    spoil(&file, b"key-1000", |page, _| page.fill(0xa5));
    let error = counting().refused_in(&damaged);
    assert_says(&error, &["partition-0000.db", "is damaged", "not closed in order", REMEDY]);

    let damaged = as_a_crash_leaves(&trial);
    let mut bytes = fs::read(damaged.path().join("plan.db")).expect("there is a plan log");
    // All of it: the log may have some of its pages.
    bytes.fill(0xa5);
    fs::write(damaged.path().join("plan.db"), bytes).expect("the disk has room");
    let error = counting().refused_in(&damaged);
    assert_says(&error, &["plan.db", "is damaged", REMEDY]);
}

#[test]
fn a_file_that_was_closed_in_order_is_not_read_through_when_it_is_opened() {
    let folder = reopened(folded()).close();
    spoil(&folder.path().join("partition-0000.db"), b"key-1000", |page, _| page.fill(0xa5));
    let mut trial = counting().open_in(folder);
    let error = trial.fail(&[event("key-1000", 2)]);
    assert_says(&error, &["partition-0000.db", "is damaged", REMEDY]);
}
