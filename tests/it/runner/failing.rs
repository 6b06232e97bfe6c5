//! A rule that fails is left alone, and no other is.

use super::kit::{PATIENCE, World, counts, decide, read, send, undecided, wait_for_state, wait_until_read};
use crate::support::process::wait_until;
use keyfold::runner::{QuarantineSettings, RunnerState, SinkSettings};
use keyfold::sink::{MemorySink, Sink};
use std::fs;
use std::sync::Arc;

fn is_quarantined(state: &RunnerState) -> bool {
    matches!(state, RunnerState::Quarantined { .. })
}

#[test]
fn only_the_rule_that_fails_is_quarantined_and_goes_on_where_it_was() {
    let world = World::new(2);
    let input = world.stream("input");
    let outputs = [world.stream("bad-output"), world.stream("good-output")];
    let rule = |name: &str, guest: &str, output| {
        let mut rule = world.rule(name, world.version(guest), &input, output).one_by_one();
        rule.0.quarantine = QuarantineSettings { share: 0.9, batches: 3 };
        rule.start(&world, None)
    };
    let (bad, good) = (rule("bad", "trap", &outputs[0]), rule("good", "no-imports", &outputs[1]));
    send(&input, ["bad-1", "bad-2", "fine", "bad-3", "bad-4", "bad-5", "bad-6", "last"]);
    wait_for_state(&bad, "quarantined", is_quarantined);
    wait_until("it is told", || world.told.quarantined.lock().unwrap().len() == 1);
    wait_until_read(&good);
    assert_eq!(counts(&outputs[1]).len(), 8, "{:?}", read(&outputs[1]));
    assert!(matches!(good.status().state, RunnerState::Running));
    assert_eq!(undecided(&decide(&bad, "x", PATIENCE)), Some("quarantined"));
    assert!(bad.status().lag > 0, "what it has not read stays for it");

    bad.resume();
    send(&input, ["after"]);
    wait_until("it has gone on", || counts(&outputs[0]).contains_key("after"));
    assert_eq!(counts(&outputs[0]).keys().collect::<Vec<_>>(), ["after", "fine", "last", "x"]);
}

#[test]
fn a_rule_that_fails_all_groups_of_a_batch_is_called_for_few_of_them() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let mut version = world.version("endless-loop");
    version.limits.failures_per_batch_max = Some(5);
    let keys: Vec<String> = (0..300).map(|number| format!("bad-{number:03}")).chain(["good".to_owned()]).collect();
    send(&input, keys.iter().map(String::as_str));
    let runner = world.rule("rule", version, &input, &output).start(&world, None);
    wait_until_read(&runner);
    let totals = runner.status().totals;
    assert_eq!((totals.failed_groups, totals.dead_letters), (301, 301));
    assert!(totals.calls < 30, "{totals:?}");
    assert!(counts(&output).is_empty(), "the good one came after them, and its event can run again");
}

#[test]
fn a_rule_that_cannot_be_opened_tries_again_and_says_so() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let rule = world.rule("rule", world.version("no-imports"), &input, &output);
    let folder = rule.0.folder.clone();
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::write(&folder, "no folder").unwrap();
    let runner = rule.start(&world, None);
    wait_for_state(&runner, "failed", |state| matches!(state, RunnerState::Failed { .. }));
    send(&input, ["a"]);
    assert_eq!(undecided(&decide(&runner, "a", PATIENCE)), Some("failed"));
    fs::remove_file(&folder).unwrap();
    runner.resume();
    wait_until("both are counted", || counts(&output).get("a").is_some_and(|counts| counts.last() == Some(&2)));
}

#[test]
fn a_rule_whose_run_fails_is_opened_again_by_itself() {
    let world = World::new(2);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let broken = Arc::new(std::sync::atomic::AtomicU32::new(1));
    let memory = MemorySink::default();
    let mut rule = world.rule("rule", world.version("no-imports"), &input, &output);
    let (of_rule, outputs) = (Arc::clone(&broken), memory.clone());
    rule.0.sink =
        SinkSettings::Other(Box::new(move || Box::new(Broken { left: Arc::clone(&of_rule), memory: outputs.clone() })));
    let runner = rule.start(&world, None);
    send(&input, ["a"]);
    wait_until_read(&runner);
    wait_until("the output is delivered", || runner.status().totals.opened == 2 && !memory.take().is_empty());
    assert_eq!(runner.status().totals.failures, 1);
}

/// A sink that ends the run so many times.
struct Broken {
    left: Arc<std::sync::atomic::AtomicU32>,
    memory: MemorySink,
}

impl Sink for Broken {
    fn deliver(
        &mut self,
        batch: keyfold::event::BatchId,
        blocks: &[keyfold::state::OutputBlock],
    ) -> Result<(), keyfold::sink::SinkError> {
        use std::sync::atomic::Ordering::SeqCst;
        if self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(keyfold::sink::SinkError::Broken(anyhow::anyhow!("the sink is broken")));
        }
        self.memory.deliver(batch, blocks)
    }

    fn description(&self) -> String {
        "broken".to_owned()
    }
}
