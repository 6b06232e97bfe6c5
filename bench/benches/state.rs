//! The state of one partition: the overlay, rows in the table, commits and folds. 100,000 keys with 64 bytes of state and a timeout
//! each, and a sync of the disk beside them.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use keyfold::event::Millis;
use keyfold::group::{Timeout, TimeoutClock};
use keyfold::state::Budget;
use keyfold::state::delta::DeltaRow;
use keyfold::state::overlay::Overlay;
use keyfold_bench::states::States;
use keyfold_bench::{Medium, scaled};
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

const KEYS: usize = scaled(100_000);
/// Keys of a batch.
const BATCH: usize = scaled(10_000);
const STATE: [u8; 64] = [7; 64];

/// A key with its hash.
type Key = (u64, Vec<u8>);

fn main() {
    divan::main();
}

#[divan::bench]
fn overlay_lookup(bencher: Bencher) {
    let (keys, mut overlay) = (keys(0..KEYS), Overlay::default());
    keys.iter().for_each(|key| overlay.apply(row(key)));
    bencher.counter(ItemsCount::new(KEYS)).bench_local(|| {
        for (hash, key) in &keys {
            black_box(overlay.get(*hash, key));
        }
    });
}

#[divan::bench(sample_count = 30)]
fn overlay_insert(bencher: Bencher) {
    let keys = keys(0..KEYS);
    bencher.counter(ItemsCount::new(KEYS)).with_inputs(Overlay::default).bench_local_refs(|overlay| {
        keys.iter().for_each(|key| overlay.apply(row(key)));
    });
}

#[divan::bench(sample_count = 30)]
fn overlay_replace(bencher: Bencher) {
    let (keys, mut overlay) = (keys(0..KEYS), Overlay::default());
    keys.iter().for_each(|key| overlay.apply(row(key)));
    bencher.counter(ItemsCount::new(KEYS)).bench_local(|| {
        keys.iter().for_each(|key| overlay.apply(row(key)));
    });
}

/// Keys whose rows are folded.
#[divan::bench(sample_count = 30)]
fn table_lookup(bencher: Bencher) {
    let states = States::folded(keys(0..KEYS).iter().map(row)).expect("there is room");
    let (keys, mut loaded) = (keys(0..BATCH), Vec::new());
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        loaded.clear();
        for (hash, key) in &keys {
            black_box(states.db.load(*hash, key, &mut loaded).expect("nothing is damaged"));
        }
    });
}

/// A batch of 10,000 keys: its delta and the fold of a part of the keys that have changed before.
#[divan::bench(args = [Medium::Memory, Medium::Disk], sample_count = 60, sample_size = 1)]
fn commit(bencher: Bencher, medium: Medium) {
    let mut states = States::new(medium, &Budget::default()).expect("there is room");
    states.commit(keys(0..KEYS).iter().map(row)).expect("there is room");
    let batches: Vec<_> = (0..KEYS).step_by(BATCH).map(|first| keys(first..first + BATCH)).collect();
    let mut next = batches.iter().cycle();
    let bencher = bencher.counter(ItemsCount::new(BATCH)).with_inputs(|| next.next().expect("it goes round"));
    bencher.bench_local_values(|keys| states.commit(keys.iter().map(row)).expect("there is room"));
}

/// A batch that changes nothing.
#[divan::bench(args = [Medium::Memory, Medium::Disk], sample_count = 60, sample_size = 1)]
fn commit_nothing(bencher: Bencher, medium: Medium) {
    let mut states = States::new(medium, &Budget::default()).expect("there is room");
    bencher.bench_local(|| states.commit([]).expect("there is room"));
}

/// All of 10,000 changed rows among 100,000 in the table, at once, by a commit of nothing else.
#[divan::bench(sample_count = 30, sample_size = 1)]
fn fold(bencher: Bencher) {
    let states = RefCell::new(States::folded(keys(0..KEYS).iter().map(row)).expect("there is room"));
    let mut first = 0;
    let bencher = bencher.counter(ItemsCount::new(BATCH)).with_inputs(|| {
        first = (first + BATCH) % KEYS;
        states.borrow_mut().commit(keys(first..first + BATCH).iter().map(row)).expect("there is room");
    });
    bencher.bench_local_values(|()| states.borrow_mut().commit([]).expect("there is room"));
}

/// 4 KiB appended to a file and synced: what the disk takes for itself.
#[divan::bench(sample_size = 1)]
fn sync(bencher: Bencher) {
    let folder = Medium::Disk.folder().expect("there is a disk");
    let mut file = File::create(folder.path().join("file")).expect("there is room");
    bencher.bench_local(|| {
        file.write_all(&[7; 4096]).expect("there is room");
        file.sync_data().expect("the disk works");
    });
}

/// Keys by their numbers.
fn keys(numbers: Range<usize>) -> Vec<Key> {
    numbers.map(|number| format!("u{number:06}").into_bytes()).map(|key| (xxh3_64(&key), key)).collect()
}

/// Timeouts lie within half an hour.
fn row((hash, key): &Key) -> DeltaRow<'_> {
    let timeout =
        Timeout { clock: TimeoutClock::EventTime, at: Millis(1_767_571_200_000 + (hash >> 32) as i64 % 1_800_000) };
    DeltaRow { key, state: Some((&STATE, 1)), timeout: Some(timeout) }
}
