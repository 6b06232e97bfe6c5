//! [`Partition`]: one batch in one partition: group, load, call, stage, commit. The heart of the host.

mod call;

use crate::clock::{Span, Stopwatch};
use crate::evaluate::{Evaluated, Evaluator};
use crate::event::{BatchId, Millis, PartitionId};
use crate::group::{BatchContext, GROUP_INITIAL, GROUP_TIMED_OUT, GROUP_TIMED_OUT_IN_PROCESSING_TIME, TimeoutClock};
use crate::grouped::Grouped;
use crate::imported::ImportedRows;
use crate::input::BatchInput;
use crate::plan::Plan;
use crate::staged::Staged;
use crate::state::partition_db::Thresholds;
use crate::state::{Commit, OutputBlock, PartitionDb, Shipped};
use crate::wasm::{CallError, Component, Reason};
use anyhow::{Context, Result};
use call::{Call, LoadedGroup, Taking};
use hashbrown::HashSet;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Groups of one call at most: enough to make the boundary cheap, few enough that a failed call costs little.
const GROUPS_PER_CALL: usize = 1000;
/// Bytes of one call at most, unless one group alone has more.
const BYTES_PER_CALL: usize = 1024 * 1024;

/// One partition and its file. One thread owns it.
pub struct Partition {
    id: PartitionId,
    db: PartitionDb,
}

/// A batch, as every partition gets it.
#[derive(Clone)]
pub struct Work {
    /// What was planned.
    pub plan: Arc<Plan>,
    /// The component that the plan names.
    pub component: Arc<Component>,
    /// What was read.
    pub input: Arc<BatchInput>,
    /// Outputs up to this batch are delivered.
    pub delivered: Option<BatchId>,
    /// How far batches lie in the checkpoint.
    pub shipped: Shipped,
}

/// What a batch did in one partition.
#[derive(Debug, Default, Clone)]
pub struct PartitionReport {
    /// What is to be delivered.
    pub outputs: OutputBlock,
    /// Keys with state or a timeout, after the batch.
    pub rows_total: u64,
    /// Spark's `numRowsUpdated`.
    pub rows_updated: u64,
    /// Spark's `numRowsRemoved`.
    pub rows_removed: u64,
    /// Late events that were dropped.
    pub rows_dropped: u64,
    /// Groups with events, and groups called for their timeout.
    pub groups: u64,
    /// Of these, the ones called for their timeout.
    pub timeouts: u64,
    /// Calls into the rule.
    pub calls: u64,
    /// Fuel of all groups.
    pub fuel: u64,
    /// Groups and records that went to the dead letters.
    pub dead_letters: u64,
    /// Bytes of changed states in memory.
    pub overlay_bytes: u64,
    /// Bytes of the largest instance.
    pub instance_bytes: u64,
    /// Time in calls, for events and for timeouts.
    pub call_ms: u64,
    /// Of this, for timeouts: finding them and calling for them.
    pub timeout_ms: u64,
    /// Time in the commit.
    pub commit_ms: u64,
    /// From grouping to the end of the commit; none when the batch was committed before a restart.
    pub worked: Option<Span>,
}

impl Partition {
    /// Opens the partition's file. So many batches before the last one stay readable.
    pub fn open(folder: &Path, id: PartitionId, partitions: u32, history_batches: u64) -> Result<Self> {
        Ok(Partition { id, db: PartitionDb::open(folder, id, partitions, history_batches)? })
    }

    /// Its number.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The last batch that it committed.
    pub fn committed(&self) -> Option<BatchId> {
        self.db.committed()
    }

    /// Keys with state or a timeout.
    pub fn rows(&self) -> u64 {
        self.db.rows()
    }

    /// The earliest timeout on each clock: processing time, event time.
    pub fn next_due(&mut self) -> Result<[Option<Millis>; 2]> {
        Ok([self.db.next_due(TimeoutClock::ProcessingTime)?, self.db.next_due(TimeoutClock::EventTime)?])
    }

    /// Runs a batch: groups with events first, then groups whose timeout is due and that had none.
    pub fn run(&mut self, work: &Work) -> Result<PartitionReport> {
        let batch = work.plan.batch;
        if self.db.committed().is_some_and(|last| last >= batch) {
            return self.report_committed(batch);
        }
        let working = Stopwatch::start();
        let attempt = || format!("batch {batch} failed in partition {}", self.id);
        let drops_late = work.component.description().timeout.allows_event_time() && !work.plan.batch_query;
        let late_watermark = work.plan.late_watermark.filter(|_| drops_late);
        let grouped = Grouped::new(&work.input, self.id, late_watermark);
        let context = self.context(work);
        let mut staged = Staged::default();
        if self.id == PartitionId(0) {
            staged.dead_letters = work.input.rejected();
        }
        let description = work.component.description();
        let mut run = Run {
            imported: ImportedRows::new(&work.input, self.id, description, &mut staged.dead_letters),
            db: &mut self.db,
            work,
            grouped: &grouped,
            evaluator: Evaluator::new(&work.component, &work.plan, &context),
            thresholds: thresholds(work),
            staged,
            report: PartitionReport { rows_dropped: grouped.late, ..PartitionReport::default() },
        };
        let calling = Stopwatch::start();
        run.call_groups_with_events().with_context(attempt)?;
        run.call_imported_groups().with_context(attempt)?;
        let timing_out = Stopwatch::start();
        run.call_due_groups().with_context(attempt)?;
        run.report.timeout_ms = timing_out.elapsed_ms();
        run.report.call_ms = calling.elapsed_ms();
        let report = run.commit().with_context(attempt)?;
        Ok(PartitionReport { worked: Some(working.span()), ..report })
    }

    /// The batch was committed before a restart: only its outputs may still be wanted.
    fn report_committed(&self, batch: BatchId) -> Result<PartitionReport> {
        Ok(PartitionReport {
            outputs: self.db.outputs_of(batch)?,
            rows_total: self.db.rows(),
            ..PartitionReport::default()
        })
    }

    fn context(&self, work: &Work) -> BatchContext {
        BatchContext {
            partition: self.id,
            batch: work.plan.batch,
            time: work.plan.time,
            watermark: work.plan.watermark,
            seed: work.plan.seed_bytes(),
            batch_query: work.plan.batch_query,
        }
    }
}

/// One batch in one partition while it runs.
struct Run<'a> {
    db: &'a mut PartitionDb,
    work: &'a Work,
    grouped: &'a Grouped,
    imported: ImportedRows<'a>,
    evaluator: Evaluator<'a>,
    thresholds: Thresholds,
    staged: Staged,
    report: PartitionReport,
}

impl<'a> Run<'a> {
    fn call_groups_with_events(&mut self) -> Result<()> {
        let input = &self.work.input;
        let has_times = self.work.plan.watermark.is_some();
        let mut call = Call::default();
        for group in &self.grouped.groups {
            let event = input.event(group.first_event);
            self.load(&mut call, event.key_hash, input.extracted.key_of(event), 0)?;
            for &number in &self.grouped.events[group.start as usize..group.end as usize] {
                let event = input.event(number);
                call.columns.payloads.extend_from_slice(input.payload(event));
                call.columns.payload_ends.push(call.columns.payloads.len() as u32);
                if has_times {
                    call.columns.event_times_ms.push(event.time_ms);
                }
            }
            call.events.push((group.start, group.end));
            call.columns.close_group();
            self.call_if_full(&mut call)?;
        }
        self.call(&mut call)
    }

    /// The keys whose state is imported and that had no events in this batch.
    fn call_imported_groups(&mut self) -> Result<()> {
        let mut call = Call::default();
        let keys: Vec<_> = self.imported.iter().filter(|row| !row.is_called).map(|row| (row.key, row.as_is)).collect();
        for (key, as_is) in keys {
            if as_is {
                self.put_as_is(key)?;
                continue;
            }
            self.load(&mut call, xxh3_64(key), key, 0)?;
            call.events.push((0, 0));
            call.columns.close_group();
            self.call_if_full(&mut call)?;
        }
        self.call(&mut call)
    }

    fn call_due_groups(&mut self) -> Result<()> {
        let due = self.due_keys()?;
        let mut call = Call::default();
        for (clock, key) in due {
            let flags = match clock {
                TimeoutClock::ProcessingTime => GROUP_TIMED_OUT | GROUP_TIMED_OUT_IN_PROCESSING_TIME,
                TimeoutClock::EventTime => GROUP_TIMED_OUT,
            };
            self.load(&mut call, xxh3_64(&key), &key, flags)?;
            call.events.push((0, 0));
            call.columns.close_group();
            self.report.timeouts += 1;
            self.call_if_full(&mut call)?;
        }
        self.call(&mut call)
    }

    /// The keys whose timeout is due and that had no events in this batch.
    fn due_keys(&mut self) -> Result<Vec<(TimeoutClock, Vec<u8>)>> {
        let mut due = Vec::new();
        for (clock, threshold) in [
            (TimeoutClock::ProcessingTime, self.thresholds.processing_time),
            (TimeoutClock::EventTime, self.thresholds.event_time),
        ] {
            if let Some(threshold) = threshold {
                due.extend(self.db.due(clock, threshold)?.into_iter().map(|key| (clock, key)));
            }
        }
        if due.is_empty() {
            return Ok(due);
        }
        let input = &self.work.input;
        let first_events = self.grouped.groups.iter().map(|group| input.event(group.first_event));
        let called: HashSet<&[u8]> = first_events.map(|event| input.extracted.key_of(event)).collect();
        due.retain(|(_, key)| !called.contains(key.as_slice()) && !self.imported.contains(key));
        Ok(due)
    }

    fn put_as_is(&mut self, key: &[u8]) -> Result<()> {
        let existed = self.db.load(xxh3_64(key), key, &mut Vec::new())?.is_some();
        if let Some(row) = self.imported.get_mut(key) {
            self.staged.put(
                key,
                existed,
                row.state.as_ref().map(|(state, schema)| (state.as_slice(), *schema)),
                row.timeout,
            );
        }
        Ok(())
    }

    /// Adds a key with its state to a call. An imported state takes the place of the one that the key had.
    fn load(&mut self, call: &mut Call, hash: u64, key: &[u8], mut flags: u8) -> Result<()> {
        let states = call.columns.states.len();
        let row = self.db.load(hash, key, &mut call.columns.states)?;
        let mut loaded = LoadedGroup { row, existed: row.is_some(), imported: false };
        if let Some(imported) = self.imported.get_mut(key) {
            call.columns.states.truncate(states);
            call.columns.states.extend_from_slice(imported.bytes());
            (loaded.row, loaded.imported) = (Some(imported.loaded()), true);
            imported.is_called = true;
            flags |= if imported.as_is { 0 } else { GROUP_INITIAL };
        }
        call.columns.keys.extend_from_slice(key);
        call.columns.state_schemas.push(loaded.row.and_then(|row| row.schema).unwrap_or(0));
        call.columns.flags.push(flags);
        call.loaded.push(loaded);
        Ok(())
    }

    fn call_if_full(&mut self, call: &mut Call) -> Result<()> {
        if call.columns.len() >= GROUPS_PER_CALL || call.columns.bytes() >= BYTES_PER_CALL {
            self.call(call)?;
        }
        Ok(())
    }

    fn call(&mut self, call: &mut Call) -> Result<()> {
        if call.columns.is_empty() {
            return Ok(());
        }
        self.report.groups += call.columns.len() as u64;
        let description = self.work.component.description();
        let readable = |schema: u32| schema == 0 || description.readable_schemas.contains(&schema);
        if call.columns.state_schemas.iter().all(|&schema| readable(schema)) {
            let (evaluator, mut taking) = self.parts();
            evaluator.evaluate(&call.columns, |group, evaluated| taking.take(call, group, &evaluated))?;
        } else {
            self.call_readable(call, readable)?;
        }
        call.columns.clear();
        call.loaded.clear();
        call.events.clear();
        Ok(())
    }

    /// Some states were written under a schema that the rule does not read: their groups fail, the others are called.
    fn call_readable(&mut self, call: &Call, readable: impl Fn(u32) -> bool) -> Result<()> {
        for group in 0..call.columns.len() {
            let schema = call.columns.state_schemas[group];
            let (evaluator, mut taking) = self.parts();
            if readable(schema) {
                let alone = call.columns.slice(group..group + 1);
                evaluator.evaluate(&alone, |_, evaluated| taking.take(call, group, &evaluated))?;
                continue;
            }
            let message = format!(
                "the state has schema {schema}, the rule reads {:?}: run a version that reads it",
                taking.work.component.description().readable_schemas
            );
            let error = CallError::new(Reason::UnreadableState, message);
            taking.take(call, group, &Evaluated { outcome: Err(&error), fuel: 0 });
        }
        Ok(())
    }

    /// The evaluator, and where its outcomes go.
    fn parts(&mut self) -> (&mut Evaluator<'a>, Taking<'_>) {
        let Run { evaluator, staged, report, work, grouped, thresholds, .. } = self;
        (evaluator, Taking { staged, report, work, grouped, thresholds: *thresholds })
    }

    fn commit(self) -> Result<PartitionReport> {
        let Run { db, work, evaluator, thresholds, staged, mut report, .. } = self;
        let batch = work.plan.batch;
        let committing = Stopwatch::start();
        report.dead_letters = staged.dead_letters.len() as u64;
        report.rows_updated = staged.rows_updated;
        report.rows_removed = staged.rows_removed;
        db.commit(Commit {
            batch,
            delta: staged.delta,
            rows_added: staged.rows_added,
            outputs: &staged.outputs,
            dead_letters: &staged.dead_letters,
            delivered: work.delivered,
            shipped: work.shipped,
            thresholds,
        })?;
        report.outputs = staged.outputs;
        report.rows_total = db.rows();
        report.overlay_bytes = db.overlay_bytes() as u64;
        report.calls = evaluator.calls;
        report.instance_bytes = evaluator.memory_bytes;
        report.commit_ms = committing.elapsed_ms();
        Ok(report)
    }
}

/// Which timeouts this batch fires: those of the clocks that the rule uses.
fn thresholds(work: &Work) -> Thresholds {
    let timeout = work.component.description().timeout;
    if work.plan.batch_query {
        return Thresholds { processing_time: None, event_time: None };
    }
    Thresholds {
        processing_time: timeout.allows_processing_time().then_some(work.plan.time),
        event_time: work.plan.watermark.filter(|_| timeout.allows_event_time()),
    }
}
