//! How long batches can be read, and how little is kept for it.

use super::{NOTHING, Readable};
use crate::support::rules::{Setup, event};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use std::path::Path;

/// A key group is folded every 64 commits while all keys change.
const ROTATION: u64 = 64;

/// Spark's own test of its reader: five batches are retained, a count goes from 1 to 7 in batches 0 to 6, and is removed then.
#[test]
fn batches_before_the_last_are_kept_as_many_as_were_asked_for() {
    let mut trial = Setup { history_batches: 5, ..Setup::guest("event-time-timeout") }.open();
    for batch in 0..7 {
        trial.run(&[event("a", (batch + 1) * 1_000)]);
    }
    for batch in 7..10 {
        trial.run_with_watermark(&NOTHING, Some(batch * 10_000));
    }
    let readable = Readable::of(&trial);
    assert_eq!(readable.batches(), (4, 9));
    assert_eq!(readable.get_at(4, "a").expect("it was there")["value"], json!({"count": 5}));
    assert_eq!(readable.get_at(6, "a").expect("it was there")["value"], json!({"count": 7}));
    assert_eq!(readable.get_at(7, "a"), None);
    assert_eq!(
        readable.refusal(3),
        "batch 3 is no longer kept: batches 4 to 9 can be read (history-batches says how many are)"
    );
    assert_eq!(readable.refusal(10), "there is no batch 10 yet: batches 4 to 9 can be read");
}

#[test]
fn without_history_only_the_last_batch_can_be_read() {
    let mut trial = Setup { history_batches: 0, ..Setup::guest("event-time-timeout") }.open();
    for batch in 0..3 {
        trial.run(&[event("a", batch * 1_000)]);
    }
    let readable = Readable::of(&trial);
    assert_eq!(readable.batches(), (2, 2));
    assert_eq!(readable.at(2), readable.newest());
    assert_eq!(readable.changes(2, 2).len(), 1);
    assert!(readable.refusal(1).starts_with("batch 1 is no longer kept"), "{}", readable.refusal(1));
}

/// How many rows a table of the first partition has.
fn rows(folder: &Path, table: &str) -> u64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(folder.join("partition-0000.db"), flags).expect("the file is there");
    let sql = format!("SELECT count(*) FROM {table}");
    connection.query_row(&sql, [], |row| row.get(0)).expect("the table is there")
}

#[test]
fn deltas_and_undos_are_bounded_by_the_history() {
    const PARTITIONS: u32 = 4;
    let folds_of_a_commit = (1024 / u64::from(PARTITIONS)).div_ceil(ROTATION);
    for history_batches in [0, 1, 2, 20] {
        let setup = || Setup { partitions: PARTITIONS, history_batches, ..Setup::guest("either-timeout") };
        let mut trial = setup().open();
        let mut greatest = (0, 0);
        for batch in 0..170 {
            let lines: Vec<String> = (0..8).map(|key| event(&format!("event-{key}"), batch * 1_000)).collect();
            trial.run(&lines);
            if batch % 50 == 49 {
                trial = setup().open_in(trial.close());
            }
            let (deltas, undos) = (rows(trial.path(), "delta"), rows(trial.path(), "undo"));
            greatest = (greatest.0.max(deltas), greatest.1.max(undos));
        }
        let (deltas, undos) = greatest;
        assert!(deltas <= history_batches + ROTATION, "{deltas} deltas with a history of {history_batches}");
        let undos_max = history_batches.saturating_sub(1) * folds_of_a_commit;
        assert!(undos <= undos_max, "{undos} undos with a history of {history_batches}");
        assert_eq!(undos > 0, history_batches > 1, "with a history of {history_batches}");
    }
}
