//! Answers whose columns do not fit together: nothing of them is used, and the message says what is wrong.

use super::{assert_letters, assert_says, counts};
use crate::support::rules::{Setup, Trial};
use keyfold::limits::Limits;

/// With fuel for millions of outputs.
fn malformed_columns() -> Trial {
    let limits = Limits { fuel_per_group: 2_000_000_000, ..Limits::default() };
    Setup { limits, ..Setup::guest("malformed-columns") }.open()
}

/// A key for each way to be malformed, and what the message must say.
const KINDS: [(&str, &[&str]); 10] = [
    ("bad-short-verdicts", &["verdicts has", "items for", "groups"]),
    ("bad-decreasing-ends", &["output-ends decreases"]),
    ("bad-ends-past-bytes", &["output-ends ends at 4294967295"]),
    ("bad-ends-before-bytes", &["output-ends ends at", "its column has"]),
    ("bad-group-output-ends", &["group-output-ends ends at", "its column has"]),
    ("bad-unknown-verdict", &["verdict 4 is unknown"]),
    ("bad-state-without-update", &["bytes of state come with verdict 0"]),
    ("bad-timeout-clock-9", &["timeout clock 9 is unknown"]),
    ("bad-outputs-not-json", &["output 0", "not JSON"]),
    ("bad-output-with-newline", &["output 0", "line break"]),
];

#[test]
fn a_group_with_malformed_columns_fails_alone() {
    for (key, parts) in KINDS {
        let mut trial = malformed_columns();
        let batch = trial.run_keys(&["a", "b", key, "a", "c", key]);
        assert_eq!(batch.outputs, counts(&[("a", 2), ("b", 1), ("c", 1)]), "{key}: {:#?}", batch.letters);
        assert_letters(&batch.letters, &trial, "malformed-answer", &[(key, &[3, 6])]);
        assert_says(&batch.letters[0].message, parts);
        let batch = trial.run_keys(&["c", "d", key]);
        assert_eq!(batch.outputs, counts(&[("c", 2), ("d", 1)]), "{key}: {:#?}", batch.letters);
        assert_letters(&batch.letters, &trial, "malformed-answer", &[(key, &[9])]);
        assert!(trial.rows().keys().all(|key| !key.starts_with("bad")));
    }
}

#[test]
fn a_group_of_the_map_form_has_one_output_or_fails_alone() {
    for (key, found) in [("bad-none", "0 outputs"), ("bad-two", "2 outputs")] {
        let mut trial = Setup::guest("map-outputs").open();
        let batch = trial.run_keys(&["a", key, "b", "a"]);
        assert_eq!(batch.outputs, counts(&[("a", 2), ("b", 1)]), "{key}: {:#?}", batch.letters);
        assert_letters(&batch.letters, &trial, "malformed-answer", &[(key, &[2])]);
        assert_says(&batch.letters[0].message, &[found, "form map", "exactly one"]);
        assert!(!trial.rows().contains_key(key));
    }
}

/// The outputs are those of the last group, as far as anybody can tell, so that the one that makes them comes last here.
#[test]
fn millions_of_empty_outputs_fail_their_group_alone_and_cost_little() {
    let mut trial = malformed_columns();
    let batch = trial.run_keys(&["a", "b", "a", "bad-huge-counts"]);
    assert_eq!(batch.outputs, counts(&[("a", 2), ("b", 1)]));
    assert_letters(&batch.letters, &trial, "output-limit", &[("bad-huge-counts", &[4])]);
    assert_says(&batch.letters[0].message, &["4000001 outputs", "the limit is 10000", "outputs-max"]);
    assert_eq!(batch.progress.custom_metrics.num_calls, 1);
    assert_eq!(trial.run_keys(&["b"]).outputs, counts(&[("b", 2)]));
}

#[test]
fn an_error_that_is_not_utf_8_is_kept_as_far_as_it_can_be_read() {
    let mut trial = malformed_columns();
    let batch = trial.run_keys(&["a", "bad-errors-not-utf8", "b"]);
    assert_eq!(batch.outputs, counts(&[("a", 1), ("b", 1)]));
    assert_letters(&batch.letters, &trial, "rule-error", &[("bad-errors-not-utf8", &[2])]);
    assert_eq!(batch.letters[0].message, "\u{fffd}\u{fffd}");
}

#[test]
fn groups_that_are_malformed_in_different_ways_each_fail_for_their_own() {
    let keys: Vec<&str> = KINDS.iter().flat_map(|(key, _)| [*key, "a"]).collect();
    let batch = malformed_columns().run_keys(&keys);
    assert_eq!(batch.outputs, counts(&[("a", KINDS.len() as u64)]));
    assert_eq!(batch.letters.len(), KINDS.len());
    for (letter, (key, parts)) in batch.letters.iter().zip(KINDS) {
        assert_eq!(letter.key.as_deref(), Some(key));
        assert_says(&letter.message, parts);
    }
}
