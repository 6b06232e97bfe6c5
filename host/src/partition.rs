//! [`Partition`]: one batch in one partition: group, load, call, stage, commit. The heart of the host.

mod call;
mod migrating;
mod run;

use crate::clock::{Span, Stopwatch};
use crate::decisions::Awaited;
use crate::envelope::Envelope;
use crate::evaluate::Version;
use crate::event::{BatchId, KEY_GROUPS, KeyGroup, Millis, PartitionId};
use crate::fair::CpuShare;
use crate::generation::{self, Drained, Mark, Owner, Owners};
use crate::group::{BatchContext, TimeoutClock};
use crate::grouped::Grouped;
use crate::imported::ImportedRows;
use crate::input::BatchInput;
use crate::plan::Plan;
use crate::rule_log::RuleLog;
use crate::staged::Staged;
use crate::state::{Budget, Commit, Hold, OutputBlock, PartitionDb, RowCounts, Shipped};
use crate::wasm::Component;
use anyhow::{Context, Result, ensure};
use run::{Run, Runner, thresholds};
use std::path::Path;
use std::sync::Arc;

pub use migrating::Swept;

/// One partition and its file. One thread owns it.
pub struct Partition {
    id: PartitionId,
    /// How many there are.
    partitions: u32,
    db: PartitionDb,
}

/// A batch, as every partition gets it.
#[derive(Clone)]
pub struct Work {
    /// What was planned.
    pub plan: Arc<Plan>,
    /// The component that the plan names.
    pub component: Arc<Component>,
    /// Those that the plan drains, in the order of their numbers.
    pub drained: Vec<Arc<Component>>,
    /// What was read.
    pub input: Arc<BatchInput>,
    /// Outputs up to this batch are delivered.
    pub delivered: Option<BatchId>,
    /// How far batches lie in the checkpoint.
    pub shipped: Shipped,
    /// Whose share of the cores it computes on.
    pub cpu: CpuShare,
    /// What the rule logs.
    pub log: Arc<dyn RuleLog>,
    /// What is written around outputs.
    pub envelope: Option<Arc<Envelope>>,
    /// The keys that somebody waits for.
    pub awaited: Option<Arc<Awaited>>,
    /// Whether the batch is evaluated twice, for tests.
    pub twice: bool,
}

impl Work {
    /// The version that runs, and after it those that are drained.
    pub fn versions(&self) -> impl Iterator<Item = Version<'_>> {
        let Plan { parameters, limits, older, .. } = &*self.plan;
        let drained = self.drained.iter().zip(generation::drained(older));
        let drained =
            drained.map(|(component, Drained { parameters, limits, .. })| Version { component, parameters, limits });
        std::iter::once(Version { component: &self.component, parameters, limits }).chain(drained)
    }
}

/// What a batch did in one partition.
#[derive(Debug, Default, Clone)]
pub struct PartitionReport {
    /// What is to be delivered.
    pub outputs: OutputBlock,
    /// Keys with state or a timeout, after the batch.
    pub rows_total: u64,
    /// The same by generation and schema.
    pub counts: RowCounts,
    /// What the sweep over rows of earlier generations did.
    pub swept: Swept,
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
    /// Of all groups, the ones that failed.
    pub failed_groups: u64,
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
    pub fn open(
        folder: &Path,
        id: PartitionId,
        partitions: u32,
        history_batches: u64,
        budget: &Budget,
    ) -> Result<Self> {
        Ok(Partition { id, partitions, db: PartitionDb::open(folder, id, partitions, history_batches, budget)? })
    }

    /// Waits like this when the disk is full.
    pub fn hold_with(&mut self, hold: Hold) {
        self.db.hold_with(hold);
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

    /// The same by generation and schema.
    pub fn counts(&self) -> &RowCounts {
        self.db.counts()
    }

    /// A key that has a state of this generation and schema, when one has.
    pub fn example_of(&self, mark: Mark) -> Result<Option<Vec<u8>>> {
        for group in (0..KEY_GROUPS as u16).map(KeyGroup) {
            if let Some(row) = self.db.rows_of_group(group)?.into_iter().find(|row| row.mark() == mark) {
                return Ok(Some(row.key));
            }
        }
        Ok(None)
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
        let id = self.id;
        let attempt = || format!("batch {batch} failed in partition {id}");
        let turn = work.cpu.turn();
        let computing = turn.begin();
        let grouped = self.group(work).with_context(attempt)?;
        drop(computing);
        let (staged, report) = self.evaluate(work, &grouped).with_context(attempt)?;
        if work.twice {
            let (again, _) = self.evaluate(work, &grouped).with_context(attempt)?;
            ensure!(
                staged.agrees_with(&again),
                "{}: evaluated twice, it gave two answers; {}",
                attempt(),
                staged.first_difference(&again)
            );
        }
        let report = self.commit(work, staged, report).with_context(attempt)?;
        Ok(PartitionReport { worked: Some(working.span()), ..report })
    }

    /// Brings events together. Late ones are dropped for versions that may set timeouts in event time.
    fn group(&self, work: &Work) -> Result<Grouped> {
        let drop: Vec<bool> =
            work.versions().map(|version| version.component.description().timeout.allows_event_time()).collect();
        let can_drop = drop.contains(&true) && !work.plan.batch_query;
        let late_watermark = work.plan.late_watermark.filter(|_| can_drop);
        let owners = Owners::of(&work.plan.older);
        Grouped::new(&work.input, self.id, late_watermark, |hash, key| {
            if !drop.contains(&false) {
                return Ok(true);
            }
            let row = self.db.load(hash, key, &mut Vec::new())?;
            Ok(match row.map(|row| owners.owner(row.mark.generation)) {
                Some(Owner::Drained(number)) => drop[1 + number],
                _ => drop[0],
            })
        })
    }

    /// What the batch gives, without any trace of it in the partition.
    fn evaluate(&mut self, work: &Work, grouped: &Grouped) -> Result<(Staged, PartitionReport)> {
        let context = self.context(work);
        // One place for all instances that the batch has here, one after another.
        let _slot = work.cpu.slot();
        let mut staged = Staged::default();
        if self.id == PartitionId(0) {
            staged.dead_letters = work.input.rejected();
        }
        let description = work.component.description();
        let mut run = Run {
            partition: self.id,
            imported: ImportedRows::new(&work.input, self.id, description, &mut staged.dead_letters),
            db: &mut self.db,
            work,
            grouped,
            runners: Runner::all(work, &context),
            owners: &Owners::of(&work.plan.older),
            thresholds: thresholds(work),
            staged,
            report: PartitionReport { rows_dropped: grouped.late, ..PartitionReport::default() },
            loading: Vec::new(),
        };
        let calling = Stopwatch::start();
        run.call_groups_with_events()?;
        run.call_imported_groups()?;
        let timing_out = Stopwatch::start();
        run.call_due_groups()?;
        run.report.timeout_ms = timing_out.elapsed_ms();
        run.sweep()?;
        run.report.call_ms = calling.elapsed_ms();
        run.report.calls = run.runners.iter().map(|runner| runner.evaluator.calls).sum();
        run.report.instance_bytes = run.runners.iter().map(|runner| runner.evaluator.memory_bytes).max().unwrap_or(0);
        Ok((run.staged, run.report))
    }

    fn commit(&mut self, work: &Work, staged: Staged, mut report: PartitionReport) -> Result<PartitionReport> {
        let committing = Stopwatch::start();
        report.dead_letters = staged.dead_letters.len() as u64;
        report.rows_updated = staged.rows_updated;
        report.rows_removed = staged.rows_removed;
        let (id, partitions, decided) = (self.id, self.partitions, staged.decided);
        let tell = || {
            if let Some(awaited) = &work.awaited {
                awaited.committed(&work.plan, id, partitions, decided);
            }
        };
        let commit = Commit {
            batch: work.plan.batch,
            delta: staged.delta,
            rows_changed: staged.rows_changed,
            outputs: &staged.outputs,
            dead_letters: &staged.dead_letters,
            re_driven: &work.input.letters_of(self.id),
            purges: work.input.purges(),
            delivered: work.delivered,
            shipped: work.shipped,
            thresholds: thresholds(work),
        };
        self.db.commit_and_tell(commit, tell)?;
        report.outputs = staged.outputs;
        report.rows_total = self.db.rows();
        report.counts = self.db.counts().clone();
        report.overlay_bytes = self.db.overlay_bytes() as u64;
        report.commit_ms = committing.elapsed_ms();
        Ok(report)
    }

    /// The batch was committed before a restart: only its outputs may still be wanted.
    fn report_committed(&self, batch: BatchId) -> Result<PartitionReport> {
        Ok(PartitionReport {
            outputs: self.db.outputs_of(batch)?,
            rows_total: self.db.rows(),
            counts: self.db.counts().clone(),
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
