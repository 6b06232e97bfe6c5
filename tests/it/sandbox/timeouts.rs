//! Timeouts through the contract: when they fire, what clears them, and what is left of a key afterwards.

use super::{assert_says, counts};
use crate::support::rules::{Setup, event};
use keyfold::event::Millis;

/// No events: a batch for timeouts alone.
const NOTHING: [&str; 0] = [];

fn timed_out(key: &str) -> String {
    format!(r#"{{"key":"{key}","timed_out":true}}"#)
}

#[test]
fn an_event_time_timeout_fires_strictly_after_its_time() {
    let mut trial = Setup::guest("event-time-timeout").open();
    trial.run(&[event("a", 5_000)]);
    assert_eq!(trial.rows()["a"]["timeout"]["ms"], 15_000);
    for watermark_ms in [14_999, 15_000] {
        assert!(trial.run_with_watermark(&NOTHING, Some(watermark_ms)).outputs.is_empty(), "fired at {watermark_ms}");
    }
    let batch = trial.run_with_watermark(&NOTHING, Some(15_001));
    assert_eq!(batch.outputs, [timed_out("a")]);
    assert_eq!((batch.progress.custom_metrics.num_timeouts, batch.progress.num_rows_total), (1, 0));
    assert!(trial.rows().is_empty(), "{:?}", trial.rows());
    assert!(trial.run_with_watermark(&NOTHING, Some(90_000)).outputs.is_empty(), "it fired twice");
}

#[test]
fn a_processing_time_timeout_fires_strictly_after_its_time() {
    let mut trial = Setup::guest("processing-timeout").open();
    trial.clock.advance_to(Millis(100_000));
    trial.run(&[event("a", 5_000)]);
    assert_eq!(trial.rows()["a"]["timeout"]["ms"], 110_000);
    for time_ms in [109_999, 110_000] {
        trial.clock.advance_to(Millis(time_ms));
        // A watermark that is far ahead says nothing about this clock.
        assert!(trial.run_with_watermark(&NOTHING, Some(200_000)).outputs.is_empty(), "fired at {time_ms}");
    }
    trial.clock.advance_to(Millis(110_001));
    assert_eq!(trial.run(&NOTHING).outputs, [timed_out("a")]);
    assert!(trial.rows().is_empty(), "{:?}", trial.rows());
    trial.clock.advance_to(Millis(900_000));
    assert!(trial.run(&NOTHING).outputs.is_empty(), "it fired twice");
}

#[test]
fn a_timeout_on_either_clock_fires_on_the_one_that_was_chosen() {
    let open = || {
        let mut trial = Setup::guest("either-timeout").open();
        trial.clock.advance_to(Millis(100_000));
        trial.run(&[event("event-key", 5_000), event("other-key", 5_000)]);
        trial
    };
    let mut trial = open();
    assert_eq!(trial.rows()["event-key"]["timeout"]["clock"], "event-time");
    assert_eq!(trial.rows()["other-key"]["timeout"]["clock"], "processing-time");
    assert_eq!(trial.run_with_watermark(&NOTHING, Some(500_000)).outputs, [timed_out("event-key")]);
    assert_eq!(trial.rows().keys().collect::<Vec<_>>(), ["other-key"]);

    let mut trial = open();
    trial.clock.advance_to(Millis(500_000));
    assert_eq!(trial.run(&NOTHING).outputs, [timed_out("other-key")]);
    assert_eq!(trial.rows().keys().collect::<Vec<_>>(), ["event-key"]);
}

#[test]
fn a_call_with_events_replaces_the_timeout_also_when_it_is_due() {
    let mut trial = Setup::guest("processing-timeout").open();
    trial.run(&[event("a", 1_000)]);
    trial.clock.advance_to(Millis(50_000));
    let batch = trial.run(&[event("a", 2_000)]);
    assert_eq!(batch.outputs, counts(&[("a", 2)]), "a call with events is not one for a timeout");
    assert_eq!(trial.rows()["a"]["timeout"]["ms"], 60_000);
    trial.clock.advance_to(Millis(60_000));
    assert!(trial.run(&NOTHING).outputs.is_empty());
}

/// `no-imports` sets no timeout; the key's old one, which another version set, is gone after its call.
#[test]
fn a_call_that_sets_no_timeout_clears_the_one_that_was_there() {
    let mut trial = Setup::guest("event-time-timeout").open();
    trial.run(&[event("a", 1_000), event("b", 1_000)]);
    let mut trial = Setup::guest("slow").open_in(trial.close());
    assert_eq!(trial.run(&[event("a", 2_000)]).outputs, counts(&[("a", 2)]));
    let rows = trial.rows();
    assert_eq!((rows["a"].get("timeout"), &rows["b"]["timeout"]["ms"]), (None, &11_000.into()));
}

#[test]
fn a_timeout_without_state_fires_and_leaves_no_row() {
    for (guest, clock) in [("event-time-timeout", "event-time"), ("processing-timeout", "processing-time")] {
        let setup =
            if clock == "event-time" { Setup::guest("event-time-timeout") } else { Setup::guest("processing-timeout") };
        let mut trial = setup.open();
        trial.run(&[event("stateless", 1_000)]);
        let row = &trial.rows()["stateless"];
        assert_eq!((row.get("value"), row["timeout"]["clock"].as_str()), (None, Some(clock)), "{guest}");
        trial.clock.advance_to(Millis(50_000));
        let batch = trial.run_with_watermark(&NOTHING, Some(50_000));
        assert_eq!(batch.outputs, [timed_out("stateless")], "{guest}");
        assert_eq!(batch.progress.num_rows_total, 0, "{guest}");
        assert!(trial.rows().is_empty(), "{guest}: {:?}", trial.rows());
    }
}

#[test]
fn groups_with_events_come_before_those_that_timed_out() {
    let mut trial = Setup::guest("event-time-timeout").open();
    trial.run(&[event("a", 1_000), event("b", 2_000)]);
    let batch = trial.run_with_watermark(&[event("c", 90_000)], Some(50_000));
    let expected = [counts(&[("c", 1)]), vec![timed_out("a"), timed_out("b")]].concat();
    assert_eq!(batch.outputs, expected);
}

#[test]
fn a_call_for_a_timeout_that_fails_keeps_the_state_and_loses_the_timeout() {
    let mut trial = Setup::guest("failing-timeout").open();
    trial.run(&[event("a", 1_000), event("trap", 1_000), event("later", 80_000)]);
    let before = trial.rows();
    let batch = trial.run_with_watermark(&NOTHING, Some(50_000));
    assert!(batch.outputs.is_empty());
    let mut letters = batch.letters;
    letters.sort_by(|one, other| one.key.cmp(&other.key));
    let [error, trap] = &letters[..] else { panic!("two groups fail: {letters:#?}") };
    assert_eq!((error.key.as_deref(), error.reason.as_str()), (Some("a"), "rule-error"));
    assert_says(&error.message, &["a does not want to be woken"]);
    assert_eq!((trap.key.as_deref(), trap.reason.as_str()), (Some("trap"), "trap"));
    for letter in [error, trap] {
        assert!(letter.timed_out && letter.events.is_empty(), "{letter:#?}");
    }
    let after = trial.rows();
    for key in ["a", "trap"] {
        assert_eq!((&after[key]["value"], after[key].get("timeout")), (&before[key]["value"], None), "{key}");
    }
    assert_eq!(after["later"], before["later"]);
    assert!(trial.run_with_watermark(&NOTHING, Some(60_000)).letters.is_empty(), "it fired twice");
    // The key is in working order: its next event counts on.
    assert_eq!(trial.run(&[event("a", 95_000)]).outputs, counts(&[("a", 2)]));
}

#[test]
fn late_events_are_dropped_only_by_rules_that_set_timeouts_in_event_time() {
    for (setup, late) in [(Setup::guest("event-time-timeout"), 1), (Setup::guest("processing-timeout"), 0)] {
        let mut trial = setup.open();
        trial.run(&[event("a", 50_000)]);
        trial.run(&[event("a", 60_000)]);
        // The watermark of the batch before is 50 s: an event at it is late, one after it is not.
        let batch = trial.run(&[event("b", 50_000), event("c", 50_001)]);
        assert_eq!(batch.progress.num_rows_dropped_by_watermark, late);
        assert_eq!(batch.outputs.len() as u64, 2 - late);
    }
}
