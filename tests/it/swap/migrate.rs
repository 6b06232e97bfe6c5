//! Migrate: the new version rewrites the states, each when its key is called, the others in the sweep.

use super::{NOTHING, counted, counted_by_second, first, refused, run_many, schemas, second};
use crate::support::rules::{Setup, event, guest};
use keyfold::generation::Generation;
use keyfold::host::StateChoice;

#[test]
fn a_state_is_rewritten_before_the_call_of_its_key_and_the_count_goes_on() {
    let mut trial = first();
    trial.run(&[event("a", 1_000), event("b", 1_000), event("b", 1_000)]);
    let swapped = trial.activate(&second(), StateChoice::Migrate).unwrap();
    assert_eq!((swapped.generation, swapped.rows_left), (Generation(1), 2));
    let batch = trial.run(&[event("a", 2_000), event("new", 2_000)]);
    assert_eq!(batch.outputs, [counted_by_second("a", 2), counted_by_second("new", 1)]);
    // The sweep came to the other key in the same batch; it has kept the timeout.
    assert_eq!(schemas(&trial), [("a".to_owned(), 2), ("b".to_owned(), 2), ("new".to_owned(), 2)]);
    assert_eq!(trial.rows()["b"]["value"]["events"], 2);
    assert_eq!(trial.rows()["b"]["timeout"]["ms"], 11_000);
    assert_eq!(trial.older_rows().total(), 0);
    assert_eq!(trial.run(&[event("b", 3_000)]).outputs, [counted_by_second("b", 3)]);
    assert!(trial.last_plan().older.is_empty(), "nothing is left that a plan would have to say something of");
}

#[test]
fn a_call_that_changes_nothing_writes_the_state_anew() {
    let mut trial = first();
    trial.run(&[event("quiet-a", 1_000)]);
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    assert!(trial.run(&[event("quiet-a", 1_000)]).outputs.is_empty());
    let row = &trial.rows()["quiet-a"];
    assert_eq!(
        (&row["schema"], &row["value"]["events"], &row["timeout"]["ms"]),
        (&2.into(), &1.into(), &11_000.into())
    );
}

#[test]
fn timeouts_of_rewritten_states_are_due_when_they_were() {
    let mut trial = first();
    trial.run(&[event("a", 1_000), event("stateless-b", 1_000), event("c", 8_000)]);
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    // Both are due before anything has rewritten them.
    let batch = trial.run_with_watermark(&NOTHING, Some(12_000));
    let timed_out = |key: &str, events| format!(r#"{{"key":"{key}","timed_out":{events},"schema":2}}"#);
    let mut outputs = batch.outputs;
    outputs.sort();
    assert_eq!(outputs, [timed_out("a", 1), timed_out("stateless-b", 0)]);
    assert_eq!(trial.run_with_watermark(&NOTHING, Some(18_001)).outputs, [timed_out("c", 1)]);
    assert!(trial.rows().is_empty());
}

#[test]
fn a_state_that_cannot_be_rewritten_fails_its_key_alone_and_stays() {
    let wrong = [("refused", 100), ("traps", 200), ("loops", 300), ("panics", 400), ("grows", 500)];
    let mut trial = first();
    let keys = wrong.into_iter().chain([("good", 1)]);
    run_many(&mut trial, &keys.collect::<Vec<_>>(), 1_000);
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    let mut lines: Vec<String> = wrong.iter().map(|(key, _)| event(key, 2_000)).collect();
    lines.push(event("good", 2_000));
    let batch = trial.run(&lines);
    assert_eq!(batch.outputs, [counted_by_second("good", 2)]);
    assert_eq!(batch.letters.len(), wrong.len(), "{:?}", batch.letters);
    for (letter, (key, _)) in batch.letters.iter().zip(wrong) {
        assert_eq!((letter.reason.as_str(), letter.key.as_deref()), ("migration-failed", Some(key)));
        assert_eq!(letter.events.len(), 1, "the event is kept: {letter:?}");
    }
    let said = |part: &str| {
        assert!(batch.letters.iter().any(|letter| letter.message.contains(part)), "{part}: {:?}", batch.letters)
    };
    ["a count of 100 cannot be rewritten", "out-of-fuel", "a count of 400", "state-limit", "trapped"]
        .iter()
        .for_each(|part| said(part));
    let rows = trial.rows();
    for (key, count) in wrong {
        let row = &rows[key];
        assert_eq!((&row["schema"], &row["value"]["count"]), (&1.into(), &count.into()), "{row}");
        assert_eq!(row["timeout"]["ms"], 11_000, "{row}");
    }
    let left = trial.older_rows();
    assert_eq!((left.to_migrate, left.failed), (5, 5), "the sweep has tried them, too");
    // Every further event tries again, and so does a timeout.
    assert_eq!(trial.run(&[event("refused", 3_000)]).letters.len(), 1);
    let batch = trial.run_with_watermark(&NOTHING, Some(11_001));
    assert_eq!(batch.letters.len(), wrong.len());
    assert!(batch.letters.iter().all(|letter| letter.timed_out && letter.reason == "migration-failed"));
    assert!(trial.rows()["traps"]["timeout"].is_null(), "it would be due for ever");
}

#[test]
fn an_answer_that_does_not_fit_the_states_fails_those_that_it_is_wrong_for() {
    let wrong = [("too-few", 100), ("past-the-end", 200), ("left-over", 300), ("too-many", 400)];
    let mut trial = Setup::guest("silent").open();
    let keys = wrong.into_iter().chain([("good", 1)]);
    run_many(&mut trial, &keys.collect::<Vec<_>>(), 1_000);
    trial.activate(&guest("migrating-liar"), StateChoice::Migrate).unwrap();
    let mut lines: Vec<String> = wrong.iter().map(|(key, _)| event(key, 2_000)).collect();
    lines.push(event("good", 2_000));
    let batch = trial.run(&lines);
    assert_eq!(batch.outputs, [counted("good", 2)]);
    for (letter, part) in batch.letters.iter().zip([
        "returned 0 states for 1",
        "ends at 4294967295",
        "has 4 bytes",
        "returned 2 states for 1",
    ]) {
        assert!(letter.reason == "migration-failed" && letter.message.contains(part), "{letter:?}");
    }
    assert_eq!(batch.letters.len(), wrong.len());
}

#[test]
fn a_corrected_version_rewrites_what_the_one_before_could_not() {
    let mut trial = first();
    run_many(&mut trial, &[("a", 100)], 1_000);
    trial.activate(&second(), StateChoice::Migrate).unwrap();
    trial.run(&[event("b", 1_000)]);
    assert_eq!(trial.older_rows().to_migrate, 1);
    // The liar takes any bytes for a state, and rewrites nothing in them.
    trial.activate(&guest("migrating-liar"), StateChoice::Migrate).unwrap();
    trial.run(&NOTHING);
    assert_eq!(trial.older_rows().total(), 0);
    assert_eq!(schemas(&trial), [("a".to_owned(), 2), ("b".to_owned(), 2)]);
}

#[test]
fn a_version_without_a_migration_is_refused() {
    let mut trial = first();
    trial.run(&[event("a", 1_000)]);
    let why = refused(&mut trial, &guest("either-timeout"), StateChoice::Migrate);
    assert!(why.contains("exports no migration") && why.contains("keep, fresh or drain"), "{why}");
}
