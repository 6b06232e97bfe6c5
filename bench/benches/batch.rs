//! A batch of 100,000 payments in one partition with the rule `card-sessions`, step by step and as a whole, after batches that have
//! brought the sessions that it goes on with.

use anyhow::Result;
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use keyfold::event::{BatchId, PartitionId};
use keyfold::generation::Generation;
use keyfold::group::{GROUP_TIMED_OUT, GroupColumns, TimeoutClock, item};
use keyfold::grouped::Grouped;
use keyfold::partition::Work;
use keyfold::sink::{FilesSink, Sink};
use keyfold::source::FileSource;
use keyfold::staged::{Calling, GroupBefore, Staged};
use keyfold::state::{Budget, Loaded, PartitionDb, RowChanges};
use keyfold::wasm::{Answer, Component};
use keyfold_bench::one_partition::OnePartition;
use keyfold_bench::payments::{self, BATCH_EVENTS, Payments};
use keyfold_bench::rules::{self, GROUPS};
use keyfold_bench::{Medium, states};
use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

/// Batches before the one that is measured. A session ends after half an hour, a batch lasts longer.
const WARM_UP: usize = 3;
/// Batches that are measured as a whole.
const SAMPLES: u32 = 10;
/// The rule's `watermark-delay`.
const DELAY: Duration = Duration::from_secs(10);
/// As the host cuts calls.
const BYTES_PER_CALL: usize = 1024 * 1024;
const MEDIA: [Medium; 2] = [Medium::Memory, Medium::Disk];

fn main() -> Result<()> {
    if !rules::compile_as_child()? {
        divan::main();
    }
    Ok(())
}

#[divan::bench(sample_count = 30)]
fn group(bencher: Bencher) {
    let batch = Batch::new(Medium::Memory).expect("it can be made");
    bencher.counter(ItemsCount::new(BATCH_EVENTS)).bench_local(|| grouped(&batch.work).expect("nothing can fail"));
}

/// Looks every key up, and copies keys, states and events to columns.
#[divan::bench(sample_count = 30)]
fn load(bencher: Bencher) {
    let batch = Batch::new(Medium::Memory).expect("it can be made");
    let load = || batch.calls(|call| _ = black_box(call)).expect("nothing is damaged");
    bencher.counter(ItemsCount::new(BATCH_EVENTS)).bench_local(load);
}

/// Finds the keys whose timeout is due. Entries of the overlay that are out of date are taken out when they come up, so each time
/// the partition is opened anew.
#[divan::bench(sample_count = 30, sample_size = 1)]
fn due(bencher: Bencher) {
    let Batch { db, work, _folder: folder, .. } = Batch::new(Medium::Memory).expect("it can be made");
    drop(db);
    let open = || open(&folder).expect("it is there");
    let bencher = bencher.counter(ItemsCount::new(BATCH_EVENTS)).with_inputs(open);
    bencher.bench_local_refs(|db| due_keys(db, &work).expect("nothing is damaged"));
}

/// An instance from its start to its end, called for all groups. The guest looks at nothing.
#[divan::bench(sample_count = 30)]
fn call_keep(bencher: Bencher) {
    call(bencher, &rules::load(&rules::guest("keep")).expect("it is built"));
}

/// The same with the rule.
#[divan::bench(sample_count = 30)]
fn call_card_sessions(bencher: Bencher) {
    call(bencher, &card_sessions().expect("it is built"));
}

fn call(bencher: Bencher, component: &Component) {
    let batch = Batch::new(Medium::Memory).expect("it can be made");
    let mut calls = Vec::new();
    batch.calls(|call| calls.push(call.columns.clone())).expect("nothing is damaged");
    let context = rules::context();
    bencher.counter(ItemsCount::new(BATCH_EVENTS)).bench_local(|| {
        let mut sandbox = rules::start(component).expect("it starts");
        for columns in &calls {
            black_box(sandbox.call(&context, columns).expect("nothing fails"));
        }
    });
}

/// From answers to the delta and the outputs.
#[divan::bench(sample_count = 30)]
fn stage(bencher: Bencher) {
    let batch = Batch::new(Medium::Memory).expect("it can be made");
    let called = batch.called().expect("nothing fails");
    bencher.counter(ItemsCount::new(BATCH_EVENTS)).bench_local(|| staged(&batch.work, &called));
}

/// Delta, fold and outbox in one transaction.
#[divan::bench(args = MEDIA, sample_count = 30, sample_size = 1)]
fn commit(bencher: Bencher, medium: Medium) {
    let batch = Batch::new(medium).expect("it can be made");
    let called = batch.called().expect("nothing fails");
    let Batch { mut db, work, _folder, .. } = batch;
    let mut next = work.plan.batch.0;
    let bencher = bencher.counter(ItemsCount::new(BATCH_EVENTS)).with_inputs(|| staged(&work, &called));
    bencher.bench_local_values(|staged| {
        // The same rows once more are no more rows.
        let commit = states::commit(BatchId(next), staged.delta, RowChanges::default(), &staged.outputs);
        db.commit(commit).expect("there is room");
        next += 1;
    });
}

/// To a file.
#[divan::bench(args = MEDIA, sample_count = 30, sample_size = 1)]
fn deliver(bencher: Bencher, medium: Medium) {
    let batch = Batch::new(Medium::Memory).expect("it can be made");
    let outputs = staged(&batch.work, &batch.called().expect("nothing fails")).outputs;
    let folder = medium.folder().expect("there is room");
    let mut sink = FilesSink::open(folder.path()).expect("there is room");
    let mut next = 0;
    bencher.counter(ItemsCount::new(BATCH_EVENTS)).bench_local(|| {
        sink.deliver(BatchId(next), std::slice::from_ref(&outputs)).expect("there is room");
        next += 1;
    });
}

/// All of it, from grouping to the end of the commit; each time the next batch.
#[divan::bench(args = MEDIA, sample_count = SAMPLES, sample_size = 1)]
fn whole(bencher: Bencher, medium: Medium) {
    let folder = medium.folder().expect("there is room");
    let payments = Payments::make(WARM_UP + SAMPLES as usize).expect("they can be made");
    let mut source = payments.source().expect("it is there");
    let partition = RefCell::new(warmed_up(&folder, &mut source).expect("nothing fails"));
    let bencher = bencher.counter(ItemsCount::new(BATCH_EVENTS)).with_inputs(|| {
        let records = payments::read(&mut source).expect("there are enough");
        partition.borrow_mut().plan(payments::input(records).expect("they have keys"), None)
    });
    bencher.bench_local_values(|work| {
        let report = partition.borrow_mut().run(&work).expect("there is room");
        assert_eq!((report.dead_letters, report.rows_dropped), (0, 0), "events were lost");
        // They are dropped after the time is taken.
        (work, report)
    });
}

/// A batch that was planned and grouped, and the states that it finds.
struct Batch {
    db: PartitionDb,
    work: Work,
    grouped: Grouped,
    /// The keys that have no events, and whose timeout is due.
    due: Vec<Vec<u8>>,
    _folder: TempDir,
}

/// Groups of one call, each with its row.
#[derive(Default, Clone)]
struct Call {
    columns: GroupColumns,
    loaded: Vec<Option<Loaded>>,
}

impl Batch {
    fn new(medium: Medium) -> Result<Self> {
        let folder = medium.folder()?;
        let payments = Payments::make(WARM_UP + 1)?;
        let mut source = payments.source()?;
        let mut partition = warmed_up(&folder, &mut source)?;
        let work = partition.plan(payments::input(payments::read(&mut source)?)?, None);
        drop(partition);
        let mut db = open(&folder)?;
        let grouped = grouped(&work)?;
        let mut due = due_keys(&mut db, &work)?;
        let (events, keys) = (&work.input.extracted.events, |event| work.input.extracted.key_of(event));
        let called: HashSet<&[u8]> = events.iter().map(keys).collect();
        due.retain(|key| !called.contains(key.as_slice()));
        drop(called);
        Ok(Batch { db, work, grouped, due, _folder: folder })
    }

    /// Loads the groups, call by call, as the host does.
    fn calls(&self, mut each: impl FnMut(&Call)) -> Result<()> {
        let input = &self.work.input;
        let mut call = Call::default();
        for group in &self.grouped.groups {
            let first = input.event(group.first_event);
            call.begin_group(&self.db, first.key_hash, input.extracted.key_of(first), 0)?;
            for &number in &self.grouped.events[group.start as usize..group.end as usize] {
                let event = input.event(number);
                call.columns.payloads.extend_from_slice(input.payload(event));
                call.columns.payload_ends.push(call.columns.payloads.len() as u32);
                call.columns.event_times_ms.push(event.time_ms);
            }
            call.end_group(&mut each);
        }
        call.end(&mut each);
        for key in &self.due {
            call.begin_group(&self.db, xxh3_64(key), key, GROUP_TIMED_OUT)?;
            call.end_group(&mut each);
        }
        call.end(&mut each);
        Ok(())
    }

    /// What the rule answers.
    fn called(&self) -> Result<Vec<(Call, Answer)>> {
        let mut calls = Vec::new();
        self.calls(|call| calls.push(call.clone()))?;
        let mut sandbox = rules::start(&self.work.component)?;
        let mut answer =
            |call: Call| Ok(sandbox.call(&rules::context(), &call.columns).map(|answer| (call, answer))?);
        calls.into_iter().map(&mut answer).collect()
    }
}

impl Call {
    fn begin_group(&mut self, db: &PartitionDb, hash: u64, key: &[u8], flags: u8) -> Result<()> {
        let row = db.load(hash, key, &mut self.columns.states)?;
        self.columns.keys.extend_from_slice(key);
        self.columns.state_schemas.push(row.and_then(|row| row.mark.schema).unwrap_or(0));
        self.columns.flags.push(flags);
        self.loaded.push(row);
        Ok(())
    }

    /// Ends a group, and the call when that is enough for one.
    fn end_group(&mut self, each: &mut impl FnMut(&Call)) {
        self.columns.close_group();
        if self.columns.len() >= GROUPS || self.columns.bytes() >= BYTES_PER_CALL {
            self.end(each);
        }
    }

    fn end(&mut self, each: &mut impl FnMut(&Call)) {
        if !self.columns.is_empty() {
            each(self);
            self.columns.clear();
            self.loaded.clear();
        }
    }
}

fn card_sessions() -> Result<Component> {
    rules::load(&rules::example("card-sessions"))
}

fn warmed_up(folder: &TempDir, source: &mut FileSource) -> Result<OnePartition> {
    let mut partition = OnePartition::open(folder.path(), card_sessions()?, DELAY)?;
    for _ in 0..WARM_UP {
        let work = partition.plan(payments::input(payments::read(source)?)?, None);
        partition.run(&work)?;
    }
    Ok(partition)
}

fn open(folder: &TempDir) -> Result<PartitionDb> {
    PartitionDb::open(folder.path(), PartitionId(0), 1, 0, &Budget::default())
}

fn due_keys(db: &mut PartitionDb, work: &Work) -> Result<Vec<Vec<u8>>> {
    db.due(TimeoutClock::EventTime, work.plan.watermark.unwrap_or_default())
}

fn grouped(work: &Work) -> Result<Grouped> {
    Grouped::new(&work.input, PartitionId(0), work.plan.late_watermark, |_, _| Ok(true))
}

fn staged(work: &Work, called: &[(Call, Answer)]) -> Staged {
    let calling = Calling { work, partition: PartitionId(0), component: &work.component };
    let mut staged = Staged::default();
    for (Call { columns, loaded }, answer) in called {
        for (group, &loaded) in loaded.iter().enumerate() {
            let before = GroupBefore {
                key: columns.key_of(group),
                loaded,
                stored: loaded.map(|row| row.mark),
                rewritten: false,
                generation: Generation::default(),
                state_schema: work.component.description().state_schema,
                digest: work.component.digest(),
                state: item(&columns.states, &columns.state_ends, group),
                timed_out: columns.flags[group] & GROUP_TIMED_OUT != 0,
                was_due: false,
            };
            let outcome = answer.outcome(group).expect("nothing fails");
            staged.take(&before, &outcome, calling, answer.fuel_of(group), Vec::new);
        }
    }
    staged
}
