//! Fresh: what earlier versions wrote counts as absent, and goes.

use super::{NOTHING, counted, counted_by_second, first, second};
use crate::support::rules::event;
use keyfold::host::StateChoice;

#[test]
fn states_and_timeouts_of_earlier_versions_are_forgotten() {
    let mut trial = first();
    trial.run(&[event("a", 1_000), event("b", 1_000), event("stateless-c", 1_000)]);
    let swapped = trial.activate(&second(), StateChoice::Fresh).unwrap();
    assert_eq!(swapped.rows_left, 3);
    let batch = trial.run_with_watermark(&[event("a", 12_000)], Some(11_001));
    assert_eq!(batch.outputs, [counted_by_second("a", 1)], "it is a new key, and nothing times out");
    assert_eq!(trial.rows().keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!((batch.progress.num_rows_total, trial.older_rows().total()), (1, 0));
    assert!(trial.run_with_watermark(&NOTHING, Some(22_001)).outputs[0].contains("timed_out"));
}

#[test]
fn what_was_forgotten_does_not_come_back_with_a_version_that_could_read_it() {
    let mut trial = first();
    trial.run(&[event("a", 1_000)]);
    trial.activate(&second(), StateChoice::Fresh).unwrap();
    // Before any batch could sweep.
    trial.activate(&crate::support::rules::guest("event-time-timeout"), StateChoice::Keep).unwrap();
    assert_eq!(trial.run(&[event("a", 2_000)]).outputs, [counted("a", 1)]);
    trial.activate(&second(), StateChoice::Fresh).unwrap();
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    assert_eq!(trial.run(&[event("a", 2_000)]).outputs, [counted_by_second("a", 1)]);
}
