//! Another version takes effect at a batch boundary, and is taken back when it fails its first batches.

use super::kit::{PATIENCE, World, counts, decide, read, send, undecided, wait_until_parked, wait_until_read};
use crate::support::process::wait_until;
use keyfold::host::StateChoice;
use keyfold::runner::{RollbackSettings, RunnerState};
use keyfold::state::PlanLog;
use std::time::Duration;

#[test]
fn an_activation_opens_a_parked_rule_and_each_output_names_the_version_that_made_it() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let (before, after) = (world.version("slow"), world.version("trap"));
    let rule = world.rule("rule", before.clone(), &input, &output).parks_after(Duration::ZERO);
    let runner = rule.start(&world, None);
    send(&input, ["a"]);
    wait_until_read(&runner);
    wait_until_parked(&runner);
    let swapped = runner.activate(after.activation(StateChoice::Keep)).unwrap();
    assert_eq!(swapped.batch.0, 1);
    send(&input, ["a"]);
    wait_until("both are counted", || counts(&output)["a"] == [1, 2]);
    let digests: Vec<_> = read(&output).iter().map(|output| output["digest"].as_str().unwrap().to_owned()).collect();
    assert_eq!(digests, [before.digest(), after.digest()]);
    assert_eq!(read(&output)[1]["id"], "folder-of-rule/0/1/0");
    assert!(runner.status().is_on_trial);
}

#[test]
fn an_activation_that_fails_its_first_batches_is_taken_back() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let (before, after) = (world.version("slow"), world.version("trap"));
    let mut rule = world.rule("rule", before.clone(), &input, &output).one_by_one();
    rule.0.rollback = RollbackSettings { batches: 10, share: 0.5, groups_min: 3 };
    let runner = rule.start(&world, None);
    send(&input, ["bad-1"]);
    wait_until_read(&runner);
    runner.activate(after.activation(StateChoice::Keep)).unwrap();
    send(&input, ["bad-1", "bad-1", "bad-1"]);
    wait_until("it is rolled back", || world.told.rolled_back.lock().unwrap().len() == 1);
    let told = world.told.rolled_back.lock().unwrap()[0].clone();
    assert_eq!(told, ("rule".to_owned(), StateChoice::Keep, before.digest().to_owned()));
    send(&input, ["bad-1"]);
    wait_until_read(&runner);
    wait_until("it goes on with the state from before", || counts(&output)["bad-1"] == [1, 2]);
    let status = runner.status();
    assert_eq!((status.digest.as_str(), status.is_on_trial, status.totals.rollbacks), (before.digest(), false, 1));
}

#[test]
fn a_paused_rule_takes_an_activation_and_stays_paused() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let (before, after) = (world.version("slow"), world.version("trap"));
    let runner = world.rule("rule", before, &input, &output).start(&world, None);
    runner.pause("somebody");
    send(&input, ["a"]);
    let swapped = runner.activate(after.activation(StateChoice::Keep)).unwrap();
    assert_eq!(swapped.batch.0, 0);
    wait_until("it is closed again", || world.runners.running() == 0);
    assert!(matches!(runner.status().state, RunnerState::Paused { .. }));
    assert!(read(&output).is_empty());
    runner.resume();
    wait_until_read(&runner);
    wait_until("the output is there", || !read(&output).is_empty());
    assert_eq!(read(&output)[0]["digest"], after.digest());
}

#[test]
fn a_quarantined_rule_goes_on_with_another_version() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let mut rule = world.rule("rule", world.version("trap"), &input, &output).one_by_one();
    rule.0.quarantine.batches = 1;
    let runner = rule.start(&world, None);
    send(&input, ["bad-1", "bad-2", "bad-3", "bad-4"]);
    wait_until("it is quarantined", || !world.told.quarantined.lock().unwrap().is_empty());
    runner.activate(world.version("slow").activation(StateChoice::Keep)).unwrap();
    assert_eq!(undecided(&decide(&runner, "bad-4", PATIENCE)), None);
    wait_until("its output is delivered", || {
        counts(&output).get("bad-4").is_some_and(|counts| counts.last() == Some(&2))
    });
}

#[test]
fn an_activation_is_known_after_a_crash_before_its_first_batch() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let (before, after) = (world.version("slow"), world.version("trap"));
    let rule = |version| world.rule("rule", version, &input, &output);
    let runner = rule(before.clone()).start(&world, None);
    send(&input, ["a"]);
    wait_until_read(&runner);
    let folder = rule(before.clone()).0.folder;
    let planned = PlanLog::running(&folder).unwrap().unwrap();
    assert_eq!((planned.digest.as_str(), planned.since.0), (before.digest(), 0));
    let swapped = runner.activate(after.activation(StateChoice::Keep)).unwrap();
    // What a crash would leave now: the folder as it is, copied while the rule runs.
    let copy = world.folder.path().join("copy");
    crate::support::folder::copy(&folder, &copy);
    runner.stop();
    let planned = PlanLog::running(&copy).unwrap().unwrap();
    assert_eq!((planned.digest.as_str(), planned.since), (after.digest(), swapped.batch));
    let mut again = rule(after.clone());
    again.0.folder = copy;
    let runner = again.start(&world, None);
    send(&input, ["a"]);
    wait_until_read(&runner);
    wait_until("it goes on with the new version", || counts(&output)["a"] == [1, 2]);
    assert_eq!(read(&output)[1]["digest"], after.digest());
}
