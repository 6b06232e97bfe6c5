//! Keep: the new version reads the states as they are, or it is refused.

use super::{counted, first, refused, second};
use crate::support::rules::{Setup, event, guest};
use keyfold::event::BatchId;
use keyfold::generation::Generation;
use keyfold::host::StateChoice;

#[test]
fn a_version_that_reads_the_states_goes_on_with_them_in_the_next_batch() {
    let mut trial = first();
    assert_eq!(trial.run(&[event("a", 1_000)]).outputs, [counted("a", 1)]);
    // The same shape of states, and timeouts on both clocks.
    let swapped = trial.activate(&guest("either-timeout"), StateChoice::Keep).unwrap();
    assert_eq!((swapped.batch, swapped.generation, swapped.rows_left), (BatchId(1), Generation(0), 0));
    assert_eq!(
        trial.run(&[event("a", 2_000), event("event-b", 2_000)]).outputs,
        [counted("a", 2), counted("event-b", 1)]
    );
    let rows = trial.rows();
    assert_eq!(rows["a"]["timeout"]["clock"], "processing-time", "the new version has set it");
}

#[test]
fn a_version_that_does_not_read_them_is_refused_with_their_number_and_a_key_and_nothing_changes() {
    let mut trial = first();
    trial.run(&[event("a", 1_000), event("b", 1_000)]);
    let why = refused(&mut trial, &second(), StateChoice::Keep);
    for part in ["reads the schemas [2]", "2 states of schema 1", "the key '", "migrate, fresh or drain"] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(trial.run(&[event("a", 2_000)]).outputs, [counted("a", 2)]);
}

#[test]
fn what_a_key_has_without_a_state_is_no_reason_to_refuse() {
    let mut trial = first();
    trial.run(&[event("stateless-a", 1_000)]);
    trial.activate(&second(), StateChoice::Keep).unwrap();
    let batch = trial.run_with_watermark(&super::NOTHING, Some(11_001));
    assert_eq!(batch.outputs, [r#"{"key":"stateless-a","timed_out":0,"schema":2}"#]);
}

#[test]
fn a_version_with_other_parameters_is_an_activation_as_any_other() {
    let mut trial = Setup { parameters: serde_json::json!({"limit": 5}), ..Setup::guest("configure") }.open();
    trial.run(&[event("a", 1_000)]);
    trial.parameters = serde_json::json!({"limit": 6});
    trial.activate(&guest("configure"), StateChoice::Keep).unwrap();
    trial.run(&[event("a", 2_000)]);
    let plan = trial.last_plan();
    assert_eq!(plan.parameters, r#"{"limit":6}"#, "what a batch ran with is in its plan");
}

#[test]
fn a_version_that_needs_event_time_is_refused_where_there_is_none() {
    let mut trial = Setup { has_event_time: false, ..Setup::guest("trap") }.open();
    trial.run(&[event("a", 1_000)]);
    let why = refused(&mut trial, &guest("event-time-timeout"), StateChoice::Keep);
    assert!(why.contains("sets timeouts in event time and the input has none"), "{why}");
}
