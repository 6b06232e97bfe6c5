//! Single events are answered when they are committed, or with the reason why not.

use super::kit::{NEVER, PATIENCE, World, counts, decide, undecided, wait_until_parked, wait_until_read};
use crate::support::process::wait_until;
use keyfold::decisions::Verdict;
use keyfold::runner::Outcome;
use std::time::Duration;

fn outputs(decision: &keyfold::runner::Decision) -> Vec<String> {
    match &decision.outcome {
        Outcome::Decided(decided) => match &decided.verdict {
            Verdict::Outputs(outputs) => outputs.clone(),
            Verdict::Failed { reason, message } => panic!("{reason}: {message}"),
        },
        Outcome::Undecided { reason, message } => panic!("{reason}: {message}"),
    }
}

#[test]
fn an_answer_has_the_outputs_of_its_key_and_is_committed_before() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let version = world.version("no-imports");
    let digest = version.digest().to_owned();
    let runner = world.rule("rule", version, &input, &output).start(&world, None);
    for count in 1..=3 {
        let decision = decide(&runner, "a", PATIENCE);
        assert_eq!(outputs(&decision), [format!(r#"{{"key":"a","count":{count}}}"#)]);
        let Outcome::Decided(decided) = decision.outcome else { unreachable!("it was decided") };
        assert_eq!((decided.key.as_deref(), decided.digest.as_str()), (Some("a"), digest.as_str()));
        assert_eq!(decision.placed.unwrap().number.0, count - 1);
    }
    // Everything that was told is there after a restart, and nothing of it twice.
    runner.stop();
    let again = world.rule("rule", world.version("no-imports"), &input, &output).start(&world, None);
    assert_eq!(outputs(&decide(&again, "a", PATIENCE)), [r#"{"key":"a","count":4}"#]);
    wait_until("all are delivered", || counts(&output)["a"] == [1, 2, 3, 4]);
}

#[test]
fn many_ask_at_the_same_time_and_each_gets_the_answer_for_its_key() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let runner = world.rule("rule", world.version("no-imports"), &input, &output).start(&world, None);
    std::thread::scope(|scope| {
        for asker in 0..8 {
            let runner = &runner;
            scope.spawn(move || {
                for count in 1..=10 {
                    let answer = outputs(&decide(runner, &format!("asker-{asker}"), PATIENCE));
                    assert_eq!(answer, [format!(r#"{{"key":"asker-{asker}","count":{count}}}"#)]);
                }
            });
        }
    });
    assert_eq!((runner.status().totals.decided, runner.status().deciding), (80, 0));
}

#[test]
fn a_parked_rule_is_opened_to_answer() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let rule = world.rule("rule", world.version("no-imports"), &input, &output).parks_after(Duration::ZERO);
    let runner = rule.start(&world, None);
    wait_until_parked(&runner);
    assert_eq!(outputs(&decide(&runner, "a", PATIENCE)).len(), 1);
}

#[test]
fn without_an_answer_in_time_there_is_a_reason_and_the_event_is_put_through_all_the_same() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let runner =
        world.rule("rule", world.version("no-imports"), &input, &output).parks_after(NEVER).start(&world, None);
    runner.pause("somebody");
    assert_eq!(undecided(&decide(&runner, "a", PATIENCE)), Some("paused"));
    runner.resume();
    wait_until_read(&runner);
    assert_eq!(undecided(&decide(&runner, "a", Duration::ZERO)), Some("deadline"));
    wait_until("both are counted", || counts(&output)["a"].last() == Some(&2));
    assert_eq!((runner.status().totals.undecided, runner.status().deciding), (2, 0));
}

#[test]
fn an_event_that_fails_or_has_no_key_is_answered_with_the_reason_of_its_dead_letter() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let runner = world.rule("rule", world.version("trap"), &input, &output).start(&world, None);
    let failed = |decision: keyfold::runner::Decision| match decision.outcome {
        Outcome::Decided(decided) => match decided.verdict {
            Verdict::Failed { reason, .. } => (reason, decided.key),
            Verdict::Outputs(outputs) => panic!("{outputs:?}"),
        },
        Outcome::Undecided { reason, message } => panic!("{reason}: {message}"),
    };
    assert_eq!(failed(decide(&runner, "bad", PATIENCE)), ("trap".to_owned(), Some("bad".to_owned())));
    let keyless = keyfold::stream::NewEvent::new("{}").unwrap();
    let decision = runner.decide(keyfold::event::InputId(0), keyless, PATIENCE).unwrap();
    let (reason, key) = failed(decision);
    assert_eq!((reason.is_empty(), key), (false, None));
    assert_eq!(outputs(&decide(&runner, "good", PATIENCE)), [r#"{"key":"good","count":1}"#]);
}
