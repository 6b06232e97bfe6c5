//! Rules that stop in the middle of a call: the group that did it is found and fails alone.

use super::{assert_letters, assert_says, counts, fails_alone, nothing_fails, trial_counts};
use crate::support::rules::{Setup, example};
use keyfold::limits::Limits;
use keyfold::state::DeadLetter;
use std::collections::BTreeMap;

const BAD: [&str; 2] = ["bad-1", "bad-2"];

fn has_fuel(letters: &[DeadLetter]) {
    assert!(letters.iter().all(|letter| letter.fuel.is_some_and(|fuel| fuel > 0)), "{letters:#?}");
}

#[test]
fn a_trap_fails_its_group_alone() {
    let letters = fails_alone(&mut Setup::guest("trap").open(), BAD, "trap");
    has_fuel(&letters);
    assert_says(&letters[0].message, &["trapped", "unreachable"]);
}

#[test]
fn a_panic_fails_its_group_alone_and_its_message_is_kept() {
    let letters = fails_alone(&mut Setup::guest("panic").open(), BAD, "panic");
    has_fuel(&letters);
    assert_says(&letters[0].message, &["the amount 7 is odd", "src/lib.rs"]);
}

#[test]
fn an_error_fails_its_group_alone_without_another_call() {
    let mut trial = Setup::guest("fail").open();
    let letters = fails_alone(&mut trial, BAD, "rule-error");
    has_fuel(&letters);
    assert_eq!(letters[0].message, "the key bad-1 has the amount 7, which is odd");
    assert_eq!(trial.run_keys(&["a", "bad", "b"]).progress.custom_metrics.num_calls, 1);
}

#[test]
fn an_endless_recursion_fails_its_group_alone() {
    let letters = fails_alone(&mut Setup::guest("stack-overflow").open(), BAD, "stack-overflow");
    has_fuel(&letters);
    assert_says(&letters[0].message, &["recursed", "stack"]);
}

#[test]
fn a_refused_call_fails_the_group_that_it_is_refused_for() {
    let letters = fails_alone(&mut Setup::guest("failing-call").open(), BAD, "call-refused");
    assert_says(&letters[0].message, &["refused the call", "no call with the key bad-1"]);
}

#[test]
fn a_trap_of_a_rule_that_never_says_where_it_is_fails_its_group_alone() {
    let letters = fails_alone(&mut Setup::guest("silent").open(), BAD, "trap");
    has_fuel(&letters);
}

#[test]
fn a_rule_that_imports_nothing_runs() {
    let mut trial = Setup::guest("no-imports").open();
    nothing_fails(&mut trial, "bad");
    // Types are no functions.
    assert_eq!(trial.component.imports(), ["keyfold:rule/types@0.1.0"]);
}

#[test]
fn a_rule_that_keeps_everything_leaves_the_states_as_they_were() {
    let mut trial = Setup::guest("no-imports").open();
    nothing_fails(&mut trial, "bad");
    let rows = trial.rows();
    let mut trial = Setup::guest("keep").open_in(trial.close());
    let batch = trial.run_keys(&["a", "new", "b"]);
    assert!(batch.letters.is_empty() && batch.outputs.is_empty(), "{:#?} {:?}", batch.letters, batch.outputs);
    assert_eq!(trial.rows(), rows);
}

/// Each group passes alone; only in one instance, after each other, they do not.
#[test]
fn groups_that_pass_apart_from_each_other_do_not_fail() {
    nothing_fails(&mut Setup::guest("late-trap").open(), "bad");
}

#[test]
fn a_rule_that_blames_another_group_fails_its_own_alone() {
    for kind in ["bad-zero", "bad-range", "bad-other", "bad-twice"] {
        let mut trial = Setup::guest("liar").open();
        let batch = trial.run_keys(&["a", "b", kind, "c", "a"]);
        assert_eq!(batch.outputs, counts(&[("a", 2), ("b", 1), ("c", 1)]), "{kind}: {:#?}", batch.letters);
        // Alone, a group cannot name another one, so that two of the lies come down to the trap behind them.
        let reason = if ["bad-range", "bad-twice"].contains(&kind) { "invalid-progress" } else { "trap" };
        assert_letters(&batch.letters, &trial, reason, &[(kind, &[3])]);
        let batch = trial.run_keys(&["c", kind]);
        assert_eq!(batch.outputs, counts(&[("c", 2)]));
        assert_letters(&batch.letters, &trial, reason, &[(kind, &[7])]);
    }
}

#[test]
fn a_rule_that_enters_a_group_again_gets_no_fuel_for_it() {
    let limits = Limits { fuel_per_group: 1_000_000, fuel_per_event: 0, ..Limits::default() };
    let mut trial = Setup { limits, ..Setup::guest("liar") }.open();
    let letter = trial.run_keys(&["bad-twice"]).letters.remove(0);
    assert!(letter.fuel.is_some_and(|fuel| fuel <= 1_000_000), "{letter:#?}");
    assert_says(&letter.message, &["entered group 0", "once, in order"]);
}

/// One bad group in the middle of two thousand, and then every other one.
#[test]
fn many_groups_cost_few_calls_when_one_of_them_fails() {
    let mut trial = Setup::guest("trap").open();
    let keys: Vec<String> = (0..2000).map(|number| format!("key-{number}")).collect();
    let mut with_bad: Vec<&str> = keys.iter().map(String::as_str).collect();
    with_bad.insert(700, "bad");
    let batch = trial.run_keys(&with_bad);
    assert_eq!((batch.outputs.len(), batch.letters.len()), (2000, 1));
    assert_eq!(batch.progress.custom_metrics.num_calls, 6);

    let mixed: Vec<String> = (0..1000).flat_map(|number| [format!("key-{number}"), format!("bad-{number}")]).collect();
    let batch = trial.run_keys(&mixed.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((batch.outputs.len(), batch.letters.len()), (1000, 1000));
    let expected = keys.iter().enumerate().map(|(number, key)| (key.clone(), if number < 1000 { 2 } else { 1 }));
    assert_eq!(trial_counts(&trial), expected.collect::<BTreeMap<_, _>>());
}

/// The same key is counted by a rule that likes it, then called by one that does not.
#[test]
fn a_group_that_fails_keeps_the_state_and_the_timeout_that_it_had() {
    let mut trial = Setup::guest("event-time-timeout").open();
    trial.run_keys(&["bad", "a"]);
    let before = trial.rows();
    assert_eq!(before["bad"]["timeout"]["ms"], 11_000, "{before:#?}");
    let mut trial = Setup::guest("trap").open_in(trial.close());
    let batch = trial.run_keys(&["bad", "b"]);
    assert_letters(&batch.letters, &trial, "trap", &[("bad", &[1])]);
    let after = trial.rows();
    assert_eq!((&after["bad"], &after["a"]), (&before["bad"], &before["a"]));
}

#[test]
fn a_rule_of_an_example_runs_in_the_same_way() {
    let mut trial = Setup::new(example("running-count")).open();
    let batch = trial.run_keys(&["a", "b", "a"]);
    assert_eq!((batch.outputs.len(), batch.letters.len()), (2, 0));
}
