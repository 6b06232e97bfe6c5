//! [`RunnerStatus`]: what a rule does now and has done since the process started.

use crate::event::{BatchId, Millis, Position};
use crate::host::Outbox;
use crate::partition::PartitionReport;
use crate::progress::Progress;
use std::sync::Arc;
use std::time::Duration;

/// What a rule does now and has done since the process started.
#[derive(Debug, Clone)]
pub struct RunnerStatus {
    /// What it does.
    pub state: RunnerState,
    /// Since when.
    pub since: Millis,
    /// The digest of what runs.
    pub digest: String,
    /// What that calls its version.
    pub version: String,
    /// Whether an activation is on trial and may be taken back.
    pub is_on_trial: bool,
    /// How far each partition of each input was read, by batches that are committed. None before that is known.
    pub positions: Option<Vec<Vec<Position>>>,
    /// Events that no committed batch has read.
    pub lag: u64,
    /// When the next timeout in processing time is due; known while it is not open.
    pub next_due: Option<Millis>,
    /// The last batch that is committed.
    pub last_batch: Option<BatchId>,
    /// Keys with state or a timeout.
    pub keys: u64,
    /// Rows of earlier versions that are still to be migrated, forgotten or drained.
    pub rows_left: u64,
    /// What waits for the sink.
    pub outbox: Outbox,
    /// How many wait for a decision.
    pub deciding: usize,
    /// The progress of the last batch.
    pub progress: Option<Arc<Progress>>,
    /// Sums.
    pub totals: Totals,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunnerState {
    /// It runs, or waits for events with its files open.
    Running,
    /// It waits for events or a timeout, and is not open.
    Parked,
    /// Somebody has paused it.
    Paused {
        /// Who.
        by: String,
    },
    /// It failed again and again.
    Quarantined {
        /// What happened.
        reason: String,
    },
    /// A quota of its tenant holds it back.
    Held {
        /// Which one.
        quota: String,
    },
    /// It cannot run, and tries again.
    Failed {
        /// What happened.
        error: String,
        /// When it tries again.
        retry_at: Millis,
    },
    /// It was stopped for good.
    Stopped,
}

/// What a rule has done since the process started.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Batches that are committed.
    pub batches: u64,
    /// Records that were read.
    pub input_rows: u64,
    /// Outputs.
    pub outputs: u64,
    /// Keys that the rule was called for.
    pub groups: u64,
    /// Of these, the ones that failed.
    pub failed_groups: u64,
    /// Of these, for a timeout.
    pub timeouts: u64,
    /// Calls into the rule.
    pub calls: u64,
    /// Fuel of all groups.
    pub fuel: u64,
    /// Groups and records that went to the dead letters.
    pub dead_letters: u64,
    /// Late events that were dropped.
    pub late: u64,
    /// How often the rule was opened.
    pub opened: u64,
    /// Activations that took effect.
    pub activations: u64,
    /// Of these, the ones that were taken back.
    pub rollbacks: u64,
    /// How often opening it or a run has failed.
    pub failures: u64,
    /// Decisions that were answered in time.
    pub decided: u64,
    /// Decisions that got the default.
    pub undecided: u64,
    /// How long batches took, from the trigger to the delivery.
    pub batch_seconds: Histogram,
}

/// The upper ends of the buckets of batch durations, in seconds.
pub const BATCH_SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// How long things took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// How many took at most so long as [`BATCH_SECONDS`] says, and longer than the bucket before; the last for all longer ones.
    pub buckets: [u64; BATCH_SECONDS.len() + 1],
    /// Seconds together.
    pub sum: f64,
}

impl Histogram {
    pub(super) fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BATCH_SECONDS.iter().position(|&end| seconds <= end).unwrap_or(BATCH_SECONDS.len());
        self.buckets[bucket] += 1;
        self.sum += seconds;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl Totals {
    pub(super) fn add(&mut self, report: &PartitionReport) {
        self.outputs += report.outputs.outputs;
        self.groups += report.groups;
        self.failed_groups += report.failed_groups;
        self.timeouts += report.timeouts;
        self.calls += report.calls;
        self.fuel += report.fuel;
        self.dead_letters += report.dead_letters;
        self.late += report.rows_dropped;
    }
}
