//! The same batch gives the same bytes: nothing but key, events, state and timeout reaches a rule.

use super::counts;
use crate::support::rules::{Batch, Setup, Trial, event, example};
use keyfold::event::Millis;
use serde_json::Value;
use std::collections::BTreeMap;

fn parsed(outputs: &[String]) -> Vec<Value> {
    outputs.iter().map(|line| serde_json::from_str(line).expect("the host checked that it is JSON")).collect()
}

/// The member of each output with this name.
fn members(batch: &Batch, name: &str) -> Vec<Value> {
    parsed(&batch.outputs).iter().map(|output| output[name].clone()).collect()
}

#[test]
fn what_a_rule_remembers_outside_its_state_is_gone_with_the_batch() {
    let mut trial = Setup::guest("leak").open();
    // Within a batch it is not hidden: such a rule gives other outputs when its groups are divided among calls differently.
    assert_eq!(members(&trial.run_keys(&["a", "b", "c"]), "calls_seen"), [1, 2, 3]);
    assert_eq!(members(&trial.run_keys(&["a", "b"]), "calls_seen"), [1, 2]);
    assert_eq!(members(&trial.run_keys(&["a"]), "count"), [3]);
}

#[test]
fn what_a_rule_remembers_outside_its_state_does_not_reach_other_partitions() {
    const PARTITIONS: u32 = 8;
    let keys: Vec<String> = (0..64).map(|number| format!("key-{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut trial = Setup { partitions: PARTITIONS, ..Setup::guest("leak") }.open();
    let seen = members(&trial.run_keys(&keys), "calls_seen");
    assert_eq!(seen.len(), keys.len());
    assert_eq!(seen.iter().filter(|&count| count == 1).count(), PARTITIONS as usize, "{seen:?}");
}

#[test]
fn the_clock_the_random_numbers_and_the_environment_of_wasi_are_those_of_the_batch() {
    let open = || {
        let trial = Setup::guest("asks-for-clock").open();
        trial.clock.advance_to(Millis(1_767_571_200_123));
        trial
    };
    let (mut trial, mut again) = (open(), open());
    let batch = trial.run_keys(&["a", "b"]);
    assert!(batch.letters.is_empty(), "{:#?}", batch.letters);
    assert_eq!(members(&batch, "time_ms"), [1_767_571_200_123_i64; 2]);
    assert_eq!(members(&batch, "environment"), [Value::Array(vec![]), Value::Array(vec![])]);
    let random = [members(&batch, "random_u64"), members(&batch, "random_bytes")];
    assert!(random.iter().all(|numbers| numbers[0] != numbers[1]), "two numbers are the same: {random:?}");
    assert_eq!(random[1][0].as_array().map(Vec::len), Some(8));
    assert_eq!(again.run_keys(&["a", "b"]).outputs, batch.outputs, "the same batch has the same numbers");

    trial.clock.advance_to(Millis(1_767_571_260_000));
    let next = trial.run_keys(&["a", "b"]);
    assert_eq!(members(&next, "time_ms"), [1_767_571_260_000_i64; 2]);
    assert_ne!(members(&next, "random_u64"), random[0], "the next batch has other numbers");
}

/// Events of card-sessions: some users, payments that follow each other, a few of them high.
fn payments(users: u64, count: u64) -> Vec<String> {
    let payment = |number: u64| {
        let (user, high) = (number * 7 % users, number.is_multiple_of(5));
        let amount = if high { 60_000 } else { 900 };
        let key = format!("user-{user}");
        format!(
            r#"{{"key":"{key}","user_id":"{key}","at":{at},"ts":{at},"amount_minor":{amount}}}"#,
            at = number * 90_000
        )
    };
    (1..=count).map(payment).collect()
}

fn sessions(partitions: u32) -> Trial {
    Setup { partitions, ..Setup::new(example("card-sessions")) }.open()
}

/// Runs the payments in batches, and then one batch in which all sessions have ended.
fn play(trial: &mut Trial, batch: usize) -> (Vec<String>, Vec<u64>) {
    let (mut outputs, mut fuel) = (Vec::new(), Vec::new());
    for lines in payments(20, 600).chunks(batch) {
        let done = trial.run(lines);
        assert!(done.letters.is_empty(), "{:#?}", done.letters);
        outputs.extend(done.outputs);
        fuel.push(done.progress.custom_metrics.fuel);
    }
    let done = trial.run_with_watermark(&[] as &[&str], Some(1_000_000_000));
    outputs.extend(done.outputs);
    fuel.push(done.progress.custom_metrics.fuel);
    (outputs, fuel)
}

#[test]
fn the_same_batches_give_the_same_outputs_states_and_fuel() {
    let (mut one, mut other) = (sessions(4), sessions(4));
    let (outputs, fuel) = play(&mut one, 150);
    assert!(outputs.len() > 20 && fuel.iter().all(|&fuel| fuel > 0), "{} outputs, fuel {fuel:?}", outputs.len());
    assert_eq!(play(&mut other, 150), (outputs, fuel));
    assert_eq!(one.rows(), other.rows());
}

#[test]
fn the_number_of_partitions_changes_nothing_but_the_order() {
    let run = |partitions| {
        let mut trial = sessions(partitions);
        let (mut outputs, _) = play(&mut trial, 150);
        outputs.sort();
        (outputs, trial.rows())
    };
    assert_eq!(run(1), run(8));
}

/// Whatever is between and around a group, in its call or not, its outputs and its state are the same.
#[test]
fn groups_that_fail_change_nothing_for_the_others() {
    let good: Vec<String> = (0..40).map(|number| format!("key-{number}")).collect();
    let run = |guest: &str, setup: Setup, bad_after: &[usize]| -> (Vec<String>, BTreeMap<String, Value>) {
        let mut trial = setup.open();
        let mut outputs = Vec::new();
        for batch in 0..3_i64 {
            let mut lines = Vec::new();
            for (number, key) in good.iter().enumerate() {
                lines.push(event(key, 1_000 * (batch + 1)));
                if bad_after.contains(&number) {
                    lines.push(event(&format!("bad-{number}"), 1_000 * (batch + 1)));
                }
            }
            let done = trial.run(&lines);
            assert_eq!(done.letters.len(), bad_after.len(), "{guest}: {:#?}", done.letters);
            outputs.extend(done.outputs);
        }
        (outputs, trial.rows())
    };
    for (guest, setup) in [
        ("trap", (|| Setup::guest("trap")) as fn() -> Setup),
        ("panic", || Setup::guest("panic")),
        ("fail", || Setup::guest("fail")),
        ("failing-call", || Setup::guest("failing-call")),
        ("silent", || Setup::guest("silent")),
    ] {
        let undisturbed = run(guest, setup(), &[]);
        assert_eq!(undisturbed.0[..2], counts(&[("key-0", 1), ("key-1", 1)]));
        for bad_after in [&[0][..], &[39], &[17], &[3, 4, 5], &[0, 13, 26, 39]] {
            assert_eq!(run(guest, setup(), bad_after), undisturbed, "{guest} with bad groups after {bad_after:?}");
        }
    }
}

/// Three calls for the same groups: 2,500 groups in one batch, and the same in batches of fifty.
#[test]
fn groups_give_the_same_in_one_call_and_in_many() {
    let keys: Vec<String> = (0..2500).map(|number| format!("key-{number}")).collect();
    let lines: Vec<String> = keys.iter().map(|key| event(key, 1_000)).collect();
    let mut together = Setup::new(example("running-count")).open();
    let batch = together.run(&lines);
    assert_eq!(batch.progress.custom_metrics.num_calls, 3);
    let mut apart = Setup::new(example("running-count")).open();
    let outputs: Vec<String> = lines.chunks(50).flat_map(|lines| apart.run(lines).outputs).collect();
    assert_eq!(batch.outputs, outputs);
    assert_eq!(together.rows(), apart.rows());
}
