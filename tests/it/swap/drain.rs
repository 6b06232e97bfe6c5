//! Drain: keys that have a row go on with the version that wrote it until the row is gone.

use super::{NOTHING, counted, counted_by_second, first, refused, second};
use crate::support::rules::{Setup, event, guest};
use keyfold::host::StateChoice;

#[test]
fn keys_with_a_row_go_on_with_the_old_version_until_it_is_gone() {
    let mut trial = first();
    trial.run(&[event("a", 1_000), event("b", 5_000), event("stateless-c", 1_000)]);
    let swapped = trial.activate(&second(), StateChoice::Drain).unwrap();
    assert_eq!(swapped.rows_left, 3);
    let batch = trial.run(&[event("a", 2_000), event("new", 2_000), event("a", 2_000)]);
    assert_eq!(batch.outputs, [counted_by_second("new", 1), counted("a", 3)]);
    assert_eq!(trial.rows()["a"]["schema"], 1, "the old version has written it again");
    assert_eq!(trial.older_rows().to_drain, 3);
    // a and c are gone, b is not.
    let batch = trial.run_with_watermark(&NOTHING, Some(12_001));
    let mut outputs = batch.outputs;
    outputs.sort();
    let timed_out = |key: &str| format!(r#"{{"key":"{key}","timed_out":true}}"#);
    let of_new = r#"{"key":"new","timed_out":1,"schema":2}"#.to_owned();
    assert_eq!(outputs, [timed_out("a"), of_new, timed_out("stateless-c")]);
    assert_eq!(
        trial.run(&[event("a", 13_000), event("b", 13_000)]).outputs,
        [counted_by_second("a", 1), counted("b", 2)]
    );
    assert_eq!(trial.older_rows().to_drain, 1);
    assert_eq!(trial.run_with_watermark(&NOTHING, Some(23_001)).outputs.len(), 2);
    assert_eq!(trial.older_rows().to_drain, 0);
    assert_eq!(trial.run(&[event("b", 24_000)]).outputs, [counted_by_second("b", 1)]);
    assert!(trial.last_plan().older.is_empty(), "the drain is over");
}

#[test]
fn a_host_that_is_opened_again_drains_on() {
    let mut trial = first();
    trial.run(&[event("a", 1_000)]);
    trial.activate(&second(), StateChoice::Drain).unwrap();
    // Once before any batch has run with it, and once after.
    let mut trial = Setup::new(second()).open_in(trial.close());
    assert_eq!(
        trial.run(&[event("a", 2_000), event("b", 2_000)]).outputs,
        [counted_by_second("b", 1), counted("a", 2)]
    );
    let mut trial = Setup::new(second()).open_in(trial.close());
    assert_eq!(trial.older_rows().to_drain, 1);
    assert_eq!(trial.run(&[event("a", 3_000)]).outputs, [counted("a", 3)]);
}

#[test]
fn several_versions_can_be_drained_at_the_same_time() {
    let mut trial = first();
    trial.run(&[event("a", 1_000)]);
    trial.activate(&second(), StateChoice::Drain).unwrap();
    trial.run(&[event("b", 2_000)]);
    // Back to the first version, as after a failure of the second: its own keys are drained by itself.
    trial.activate(&guest("event-time-timeout"), StateChoice::Drain).unwrap();
    let batch = trial.run(&[event("a", 3_000), event("b", 3_000), event("c", 3_000)]);
    assert_eq!(batch.outputs, [counted("c", 1), counted("a", 2), counted_by_second("b", 2)]);
    assert_eq!(trial.older_rows().to_drain, 2);
    trial.run_with_watermark(&NOTHING, Some(13_001));
    assert_eq!((trial.older_rows().to_drain, trial.rows().len()), (0, 0));
}

#[test]
fn more_than_a_few_versions_at_the_same_time_are_refused() {
    let mut trial = first();
    let versions = [second(), guest("event-time-timeout")];
    for number in 0..4 {
        trial.run(&[event(&format!("key-{number}"), 1_000 * (1 + number as i64))]);
        trial.activate(&versions[number % 2], StateChoice::Drain).unwrap();
    }
    trial.run(&[event("key-4", 5_000)]);
    let why = refused(&mut trial, &versions[0], StateChoice::Drain);
    assert!(why.contains("4 versions are drained already"), "{why}");
}

#[test]
fn a_drain_on_top_of_a_migration_needs_a_version_that_reads_what_was_not_rewritten() {
    let mut trial = first();
    super::run_many(&mut trial, &[("stuck", 100)], 1_000);
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    trial.run(&[event("b", 1_000)]);
    // The first version reads its own states, and the second goes on with what it has written.
    trial.activate(&guest("event-time-timeout"), StateChoice::Drain).unwrap();
    let batch = trial.run(&[event("stuck", 2_000), event("b", 2_000), event("c", 2_000)]);
    assert_eq!(batch.outputs, [counted("stuck", 101), counted("c", 1), counted_by_second("b", 2)]);
}

#[test]
fn a_state_that_is_put_in_belongs_to_the_version_that_runs() {
    let mut trial = first();
    trial.run(&[event("a", 1_000)]);
    trial.activate(&second(), StateChoice::Drain).unwrap();
    trial.import_as_is(r#"{"key":"a","value":{"events":40,"ballast":""}}"#);
    assert_eq!(trial.run(&[event("a", 2_000)]).outputs, [counted_by_second("a", 41)]);
}

#[test]
fn late_events_are_dropped_for_the_keys_of_versions_that_want_that() {
    let mut trial = first();
    trial.run_with_watermark(&[event("a", 50_000)], Some(0));
    trial.activate(&guest("trap"), StateChoice::Drain).unwrap();
    trial.run_with_watermark(&[event("b", 45_000)], Some(45_000));
    // The first version sets timeouts in event time, the second sets none.
    let batch = trial.run(&[event("a", 44_000), event("b", 44_000)]);
    assert_eq!(batch.outputs, [counted("b", 2)]);
    assert_eq!(batch.progress.num_rows_dropped_by_watermark, 1);
}
