//! What crossing into a rule and back costs: a call with no groups, a call with 1,000 groups of a rule that does nothing with
//! them, and of one that does. With 1,000 groups, microseconds of a call are nanoseconds of a group.

use anyhow::Result;
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use keyfold::group::GroupColumns;
use keyfold_bench::rules::{self, GROUPS};
use std::path::PathBuf;

const EVENTS: [usize; 3] = [0, 1, 4];

fn main() -> Result<()> {
    if !rules::compile_as_child()? {
        divan::main();
    }
    Ok(())
}

#[divan::bench]
fn no_groups(bencher: Bencher) {
    call(bencher, rules::guest("keep"), &GroupColumns::default());
}

/// The columns go in and come out, and the guest looks at nothing.
#[divan::bench(args = EVENTS)]
fn keep(bencher: Bencher, events: usize) {
    call(counted(bencher, events), rules::guest("keep"), &rules::groups(events));
}

/// The guest counts the events of each group and puts out a line, and never says which group it is at.
#[divan::bench(args = EVENTS)]
fn no_imports(bencher: Bencher, events: usize) {
    call(counted(bencher, events), rules::guest("no-imports"), &rules::groups(events));
}

/// The same, and it says so.
#[divan::bench(args = EVENTS)]
fn failing_call(bencher: Bencher, events: usize) {
    call(counted(bencher, events), rules::guest("failing-call"), &rules::groups(events));
}

#[divan::bench(args = EVENTS)]
fn running_count(bencher: Bencher, events: usize) {
    call(counted(bencher, events), rules::example("running-count"), &rules::groups(events));
}

#[divan::bench(args = EVENTS)]
fn card_sessions(bencher: Bencher, events: usize) {
    call(counted(bencher, events), rules::example("card-sessions"), &rules::groups(events));
}

/// Counts events, or groups where there are no events.
fn counted<'a, 'b>(bencher: Bencher<'a, 'b>, events: usize) -> Bencher<'a, 'b> {
    bencher.counter(ItemsCount::new(GROUPS * events.max(1)))
}

fn call(bencher: Bencher, rule: PathBuf, groups: &GroupColumns) {
    let component = rules::load(&rule).expect("it is built");
    let mut sandbox = rules::start(&component).expect("it starts");
    let context = rules::context();
    bencher.bench_local(|| sandbox.call(&context, black_box(groups)).expect("nothing fails"));
}
