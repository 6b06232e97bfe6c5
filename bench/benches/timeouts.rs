//! What timeouts cost: finding those that are due among those that wait, and a batch that calls them.

use anyhow::Result;
use divan::Bencher;
use divan::counter::ItemsCount;
use keyfold::event::{Millis, RecordBatch};
use keyfold::group::{Timeout, TimeoutClock};
use keyfold::input::BatchInput;
use keyfold::state::Budget;
use keyfold::state::delta::DeltaRow;
use keyfold_bench::fed::{events, extractor};
use keyfold_bench::one_partition::OnePartition;
use keyfold_bench::states::States;
use keyfold_bench::{Medium, rules, scaled};
use std::time::Duration;

/// Keys that wait, each for a millisecond of its own.
const WAITING: [usize; 3] = [scaled(10_000), scaled(100_000), scaled(1_000_000)];
/// The guest sets its timeout so long after the event.
const TIMEOUT_MS: i64 = 10_000;
/// So far behind the events that they make no timeout due.
const DELAY: Duration = Duration::from_secs(1_000_000);
/// Batches without anything, after which all keys are folded into the table.
const SETTLING_BATCHES: u64 = 260;

fn main() -> Result<()> {
    if !rules::compile_as_child()? {
        divan::main();
    }
    Ok(())
}

#[divan::bench(args = WAITING, consts = [1, 10, 1_000])]
fn search_overlay<const DUE: usize>(bencher: Bencher, waiting: usize) {
    let mut states = States::new(Medium::Memory, &Budget::default()).expect("there is room");
    states.commit(rows(&keys(waiting))).expect("there is room");
    search(bencher, states, DUE);
}

#[divan::bench(args = WAITING, consts = [1, 10, 1_000])]
fn search_table<const DUE: usize>(bencher: Bencher, waiting: usize) {
    search(bencher, States::folded(rows(&keys(waiting))).expect("there is room"), DUE);
}

/// A batch without events in one partition, in memory: the search, the calls, and the commit.
#[divan::bench(args = WAITING, consts = [1, 10, 1_000], sample_count = 9, sample_size = 1)]
fn batch<const DUE: usize>(bencher: Bencher, waiting: usize) {
    let folder = Medium::Memory.folder().expect("there is room");
    let component = rules::load(&rules::guest("event-time-timeout")).expect("it is built");
    let mut partition = OnePartition::open(folder.path(), component, DELAY).expect("it is new");
    let mut run = |records, watermark| {
        let input = BatchInput::new(records, [&extractor().expect("its pointers are right")], 1);
        let work = partition.plan(input, watermark);
        partition.run(&work).expect("nothing fails").timeouts
    };
    run(events(0..waiting as u64, |number| number), None);
    for _ in 0..SETTLING_BATCHES {
        run(RecordBatch::default(), None);
    }
    let mut fired = 0;
    bencher.counter(ItemsCount::new(DUE)).bench_local(|| {
        fired += DUE;
        // Key number n is due strictly after n + 1 + TIMEOUT_MS; number `fired` - 1 is the last one that is to be.
        let watermark = Millis(fired as i64 + 1 + TIMEOUT_MS);
        let called = run(RecordBatch::default(), Some(watermark));
        assert_eq!(called, DUE.min(waiting) as u64, "batch that ends with key {fired}");
    });
}

fn search(bencher: Bencher, mut states: States, due: usize) {
    let bencher = bencher.counter(ItemsCount::new(due));
    bencher.bench_local(|| states.db.due(TimeoutClock::EventTime, Millis(due as i64)).expect("nothing is damaged"));
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("u{number:07}")).collect()
}

/// Rows with nothing but a timeout, each a millisecond after the one before.
fn rows(keys: &[String]) -> impl Iterator<Item = DeltaRow<'_>> {
    let timeout = |at| Some(Timeout { clock: TimeoutClock::EventTime, at: Millis(at) });
    (0..).zip(keys).map(move |(at, key)| DeltaRow { key: key.as_bytes(), state: None, timeout: timeout(at) })
}
