//! Tenants in one process do not move each other. How turns are shared is shown with virtual time in `fair/scheduler/tests.rs`; here
//! guests loop, grow and trap beside a rule that is asked.

use super::kit::{PATIENCE, World, counts, decide, send, undecided};
use crate::support::process::wait_until;
use keyfold::fair::Share;
use keyfold::runner::RunnerState;

#[test]
fn a_tenant_with_endless_loops_and_memory_growth_does_not_keep_another_from_its_answers() {
    let world = World::new(1);
    let hostile = world.share.tenant("hostile", Share { instances_max: Some(4), ..Share::default() });
    let quiet = world.tenant("quiet");
    // A batch each, so that the rules can be stopped between two of them.
    let bad: Vec<String> = (0..2000).map(|number| format!("bad-{number}")).collect();
    let mut rules = Vec::new();
    for (number, guest) in ["endless-loop", "endless-loop", "memory-growth", "stack-overflow"].iter().enumerate() {
        let (input, output) = (world.stream(&format!("input-{number}")), world.stream(&format!("output-{number}")));
        send(&input, bad.iter().map(String::as_str));
        let mut rule = world.rule(&format!("hostile-{number}"), world.version(guest), &input, &output).one_by_one();
        rule = rule.of_tenant(&hostile);
        rule.0.quarantine.batches = 0;
        rule.0.version.limits.failures_per_batch_max = None;
        rule.0.twice = false;
        rules.push((rule.start(&world, None), input, output));
    }
    wait_until("the hostile tenant computes", || hostile.used().cpu.as_millis() > 20);
    let (input, output) = (world.stream("input"), world.stream("output"));
    let runner =
        world.rule("quiet", world.version("no-imports"), &input, &output).of_tenant(&quiet).start(&world, None);
    for _ in 0..20 {
        assert_eq!(undecided(&decide(&runner, "a", PATIENCE)), None);
    }
    assert!(hostile.used().instances <= 4);
    assert!(
        rules.iter().any(|(rule, ..)| rule.status().state == RunnerState::Running),
        "the hostile tenant was busy all the time"
    );
    assert!(quiet.used().cpu < hostile.used().cpu);
    wait_until("all are delivered", || counts(&output)["a"] == (1..=20).collect::<Vec<u64>>());
    rules.iter().for_each(|(rule, ..)| rule.ask_to_stop());
    rules.iter().for_each(|(rule, ..)| rule.stop());
}
