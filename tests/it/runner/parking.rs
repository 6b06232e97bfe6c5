//! Rules that have nothing to do take no threads and no open files, and wake when there is something.

use super::kit::{NEVER, World, counts, open_files, read, send, wait_for_state, wait_until_parked, wait_until_read};
use crate::support::process::wait_until;
use keyfold::clock::Clock;
use keyfold::event::Millis;
use keyfold::runner::{RunnerState, Stopped};
use std::time::Duration;

const AT_ONCE: Duration = Duration::ZERO;

#[test]
fn two_hundred_parked_rules_have_no_threads_and_no_open_files_and_wake_on_events() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let version = world.version("no-imports");
    let start = |number: u32| {
        let rule = world.rule(&format!("rule-{number:03}"), version.clone(), &input, &output);
        rule.parks_after(AT_ONCE).start(&world, None)
    };
    let rules: Vec<_> = (0..200).map(start).collect();
    let all_parked = || rules.iter().for_each(|rule| wait_until_parked(rule));
    all_parked();
    assert_eq!(world.runners.running(), 0);
    assert_eq!(open_files(&world.folder.path().join("rules")), Vec::<std::path::PathBuf>::new());
    assert_eq!(world.told.parked.lock().unwrap().len(), 200);

    send(&input, ["a", "b"]);
    rules.iter().for_each(|rule| wait_until_read(rule));
    all_parked();
    assert_eq!(world.runners.running(), 0);
    let counts = counts(&output);
    assert_eq!(counts["a"].len(), 200, "each rule has read the event once");
    assert!(counts["b"].iter().all(|&count| count == 1));
    assert!(rules.iter().all(|rule| rule.needed() == [input.ends()]));
}

#[test]
fn a_parked_rule_wakes_when_a_timeout_is_due_and_not_before() {
    let clock = Clock::manual(Millis(1_000));
    let world = World::with_clock(2, clock.clone());
    let (input, output) = (world.stream("input"), world.stream("output"));
    let rule = world.rule("rule", world.version("processing-timeout"), &input, &output).parks_after(AT_ONCE);
    let runner = rule.start(&world, None);
    send(&input, ["a"]);
    wait_until_read(&runner);
    wait_until_parked(&runner);
    assert_eq!(runner.status().next_due, Some(Millis(11_000)));
    let opened = runner.status().totals.opened;

    clock.advance_to(Millis(11_000));
    world.runners.look_at_the_clock();
    runner.wake();
    assert_eq!((runner.status().totals.opened, runner.status().state), (opened, RunnerState::Parked));

    clock.advance_to(Millis(11_001));
    world.runners.look_at_the_clock();
    wait_until("the timeout has fired", || read(&output).len() == 2);
    wait_until_parked(&runner);
    assert_eq!(read(&output)[1]["output"]["timed_out"], true);
    assert_eq!(runner.status().keys, 0);
}

#[test]
fn what_a_parked_rule_waits_for_is_enough_to_go_on_after_a_restart() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let version = world.version("no-imports");
    let rule = || world.rule("rule", version.clone(), &input, &output).parks_after(AT_ONCE);
    let runner = rule().start(&world, None);
    send(&input, ["a"]);
    wait_until_read(&runner);
    wait_until_parked(&runner);
    runner.stop();
    let parked = world.told.parked.lock().unwrap().get("rule").cloned();
    assert!(parked.is_some());

    let runner = rule().start(&world, parked);
    assert_eq!((runner.status().state, runner.status().totals.opened), (RunnerState::Parked, 0));
    assert_eq!(runner.status().keys, 1);
    send(&input, ["a"]);
    wait_until("the event is counted", || counts(&output)["a"] == [1, 2]);
}

#[test]
fn a_paused_rule_keeps_its_state_and_its_place() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let version = world.version("no-imports");
    let runner = world.rule("rule", version.clone(), &input, &output).parks_after(NEVER).start(&world, None);
    send(&input, ["a"]);
    wait_until_read(&runner);
    runner.pause("somebody");
    assert_eq!(runner.status().state, RunnerState::Paused { by: "somebody".to_owned() });
    assert_eq!(world.runners.running(), 0, "it is closed when pause returns");
    send(&input, ["a", "b"]);
    runner.wake();
    assert_eq!((world.runners.running(), runner.status().lag), (0, 2));
    runner.stop();

    let mut again = world.rule("rule", version, &input, &output);
    again.0.stopped = Some(Stopped::Paused { by: "somebody".to_owned() });
    let runner = again.start(&world, None);
    assert_eq!(world.runners.running(), 0, "it is paused after a restart as well");
    runner.resume();
    wait_until("both are counted", || counts(&output).get("b").is_some_and(|counts| counts == &[1]));
    assert_eq!(counts(&output)["a"], [1, 2]);
}

#[test]
fn a_rule_that_is_held_back_reads_on_when_the_quota_allows_it_again() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let runner = world.rule("rule", world.version("no-imports"), &input, &output).start(&world, None);
    runner.hold(Some("state_keys"));
    wait_until("it is closed", || world.runners.running() == 0);
    send(&input, ["a"]);
    assert_eq!(runner.status().state, RunnerState::Held { quota: "state_keys".to_owned() });
    runner.hold(None);
    wait_until_read(&runner);
    assert_eq!(counts(&output)["a"], [1]);
}

#[test]
fn a_rule_that_is_drained_reads_no_further_and_ends_when_no_key_is_left() {
    let clock = Clock::manual(Millis(1_000));
    let world = World::with_clock(2, clock.clone());
    let (input, output) = (world.stream("input"), world.stream("output"));
    let rule = world.rule("rule", world.version("processing-timeout"), &input, &output).parks_after(AT_ONCE);
    let runner = rule.start(&world, None);
    send(&input, ["a"]);
    wait_until_read(&runner);
    runner.drain(vec![input.ends()]);
    send(&input, ["late"]);
    wait_until_parked(&runner);
    assert!(world.told.drained.lock().unwrap().is_empty());
    clock.advance_to(Millis(20_000));
    world.runners.look_at_the_clock();
    wait_until("it is drained", || *world.told.drained.lock().unwrap() == ["rule"]);
    assert!(read(&output).iter().all(|output| output["key"] == "a"));
    wait_for_state(&runner, "parked", |state| *state == RunnerState::Parked);
    assert_eq!(runner.status().keys, 0);
}
