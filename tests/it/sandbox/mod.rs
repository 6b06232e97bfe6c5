//! Rules that misbehave, in a real host: who fails, who does not, and what is said about it.

mod answers;
mod cache;
mod determinism;
mod facts;
mod groups;
mod limits;
mod malformed;
mod refusals;
mod timeouts;

use crate::support::command::root;
use crate::support::rules::{Batch, FILE, Trial, event};
use keyfold::event::InputId;
use keyfold::state::{DeadEvent, DeadLetter};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

/// Runs two batches in which bad keys lie between good ones, and checks that the bad ones alone fail, both times.
///
/// `bad` are two keys that misbehave. Returns their dead letters: of the first, of the second, and of the first again.
fn fails_alone(trial: &mut Trial, bad: [&str; 2], reason: &str) -> Vec<DeadLetter> {
    let batch = trial.run_keys(&["a", bad[0], "b", "a", bad[1], "c", bad[0]]);
    assert_eq!(batch.outputs, counts(&[("a", 2), ("b", 1), ("c", 1)]), "{:#?}", batch.letters);
    let mut letters = batch.letters;
    assert_letters(&letters, trial, reason, &[(bad[0], &[2, 7]), (bad[1], &[5])]);
    assert_eq!(trial_counts(trial), BTreeMap::from([("a".into(), 2), ("b".into(), 1), ("c".into(), 1)]));

    let batch = trial.run_keys(&["b", bad[0], "a"]);
    assert_eq!(batch.outputs, counts(&[("b", 2), ("a", 3)]), "{:#?}", batch.letters);
    assert_letters(&batch.letters, trial, reason, &[(bad[0], &[9])]);
    assert_eq!(trial_counts(trial), BTreeMap::from([("a".into(), 3), ("b".into(), 2), ("c".into(), 1)]));
    letters.extend(batch.letters);
    letters
}

/// Checks that there are dead letters for exactly these keys, with all the events of these lines.
fn assert_letters(letters: &[DeadLetter], trial: &Trial, reason: &str, expected: &[(&str, &[u64])]) {
    let keys = |letters: &[DeadLetter]| letters.iter().filter_map(|letter| letter.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(letters), expected.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>());
    for (letter, (key, lines)) in letters.iter().zip(expected) {
        assert_eq!(letter.reason, reason, "{letter:#?}");
        assert_eq!(letter.digest.as_deref(), Some(trial.component.digest()));
        assert!(!letter.timed_out, "{letter:#?}");
        let event = |&line: &u64| DeadEvent {
            input: Some(InputId(0)),
            file: FILE.to_owned(),
            line,
            text: event(key, line as i64 * 1000),
        };
        assert_eq!(letter.events, lines.iter().map(event).collect::<Vec<_>>());
    }
}

/// Checks that a message has all these parts.
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

/// Runs two batches of a rule whose keys all do well.
fn nothing_fails(trial: &mut Trial, odd: &str) -> [Batch; 2] {
    let first = trial.run_keys(&["a", odd, "b", "a", odd]);
    assert!(first.letters.is_empty(), "{:#?}", first.letters);
    assert_eq!(first.outputs, counts(&[("a", 2), (odd, 2), ("b", 1)]));
    let second = trial.run_keys(&["b", odd]);
    assert!(second.letters.is_empty(), "{:#?}", second.letters);
    assert_eq!(second.outputs, counts(&[("b", 2), (odd, 3)]));
    assert_eq!(trial_counts(trial), BTreeMap::from([("a".into(), 2), ("b".into(), 2), (odd.into(), 3)]));
    [first, second]
}

/// The outputs that count keys.
fn counts(expected: &[(&str, u64)]) -> Vec<String> {
    expected.iter().map(|(key, count)| format!(r#"{{"key":{},"count":{count}}}"#, json!(key))).collect()
}

/// The counts in the states of all keys.
fn trial_counts(trial: &Trial) -> BTreeMap<String, u64> {
    // The guests with the SDK have an object as their state, the others the number alone.
    let count = |state: &Value| state.as_u64().or_else(|| state["count"].as_u64());
    let of_row = |(key, row): (String, Value)| {
        let count = count(&row["value"]).unwrap_or_else(|| panic!("{key} has no count: {row}"));
        (key, count)
    };
    trial.rows().into_iter().map(of_row).collect()
}

#[test]
fn every_guest_has_a_test() {
    let folders = ["tests/it/sandbox", "tests/it/swap"].map(|folder| fs::read_dir(root().join(folder)));
    let sources: String = folders
        .into_iter()
        .flat_map(|folder| folder.expect("it is there"))
        .map(|entry| fs::read_to_string(entry.expect("it can be read").path()).expect("it is text"))
        .collect();
    let libraries = ["columns", "counting", "facts"];
    let mut untested = Vec::new();
    for entry in fs::read_dir(root().join("tests/guests")).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_guest = path.join("Cargo.toml").exists() && !libraries.contains(&name.as_str());
        if is_guest && !sources.contains(&format!("guest(\"{name}\")")) {
            untested.push(name);
        }
    }
    assert!(untested.is_empty(), "add a test to tests/it/sandbox or tests/it/swap: {untested:?}");
}
