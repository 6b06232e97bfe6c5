//! The sweep comes to all rows in several batches, while events come and while none do, and goes on where it was.

use super::{NOTHING, counted_by_second, first, run_many, second};
use crate::support::rules::{Setup, Trial, event};
use keyfold::host::StateChoice;

/// More than one batch sweeps.
const KEYS: usize = 10_000;

fn with_many_keys() -> Trial {
    let mut trial = Setup { partitions: 3, ..Setup::guest("event-time-timeout") }.open();
    let lines: Vec<String> = (0..KEYS).map(|number| event(&format!("key-{number}"), 1_000)).collect();
    trial.run(&lines);
    trial
}

/// Runs batches without events until nothing is left, and returns how many.
fn sweep_to_the_end(trial: &mut Trial) -> usize {
    let mut batches = 0;
    while trial.older_rows().total() > 0 {
        let before = trial.older_rows().total();
        trial.run(&NOTHING);
        batches += 1;
        assert!(trial.older_rows().total() < before, "each batch comes further, and the {batches}. did not");
    }
    batches
}

#[test]
fn each_batch_rewrites_a_part_and_in_the_end_all_are_rewritten() {
    let mut trial = with_many_keys();
    assert_eq!(trial.activate(&second(), StateChoice::Migrate).unwrap().rows_left, KEYS as u64);
    let batches = sweep_to_the_end(&mut trial);
    assert!((2..10).contains(&batches), "{batches} batches");
    let rows = trial.rows();
    assert_eq!(rows.len(), KEYS);
    assert!(rows.values().all(|row| row["schema"] == 2 && row["timeout"]["ms"] == 11_000));
    assert_eq!(trial.last_plan().generation.0, 1);
}

#[test]
fn forgotten_rows_are_deleted_part_by_part() {
    let mut trial = with_many_keys();
    trial.activate(&second(), StateChoice::Fresh).unwrap();
    assert!(sweep_to_the_end(&mut trial) > 1);
    assert!(trial.rows().is_empty());
}

#[test]
fn a_host_that_is_opened_again_sweeps_on() {
    let mut trial = with_many_keys();
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    trial.run(&NOTHING);
    trial.run(&NOTHING);
    let left = trial.older_rows().to_migrate;
    let (begun, _) = trial.last_plan().sweep.expect("it sweeps");
    assert!(begun > 0);
    assert!(left > 0 && left < KEYS as u64);
    let mut trial = Setup { partitions: 3, ..Setup::new(second()) }.open_in(trial.close());
    assert_eq!(trial.older_rows().to_migrate, left);
    trial.run(&NOTHING);
    assert!(trial.last_plan().sweep.is_some_and(|(from, _)| from == begun), "it looks at the last part again");
    sweep_to_the_end(&mut trial);
    assert!(trial.rows().values().all(|row| row["schema"] == 2));
}

#[test]
fn a_run_that_waits_for_nothing_else_sweeps_to_the_end() {
    let mut trial = with_many_keys();
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    trial.run_source(&mut keyfold::source::EmptySource).unwrap();
    assert_eq!(trial.older_rows().total(), 0);
    assert_eq!(trial.run(&[event("key-7", 2_000)]).outputs, [counted_by_second("key-7", 2)]);
}

#[test]
fn a_migration_that_fails_for_many_is_given_up_and_the_rows_stay() {
    let mut trial = first();
    let keys: Vec<String> = (0..70).map(|number| format!("bad-{number}")).collect();
    run_many(&mut trial, &keys.iter().map(|key| (key.as_str(), 100)).collect::<Vec<_>>(), 1_000);
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    trial.run_source(&mut keyfold::source::EmptySource).unwrap();
    let left = trial.older_rows();
    assert_eq!((left.to_migrate, left.failed >= 64), (70, true), "{left:?}");
    assert_eq!(trial.run(&[event("bad-1", 2_000)]).letters[0].reason, "migration-failed");
}
