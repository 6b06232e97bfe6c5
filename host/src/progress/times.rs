//! [`BatchTimes`]: when a batch was triggered and how long its steps take, and [`DurationMs`], which says so.

use crate::clock::{Span, Stopwatch};
use crate::event::Millis;
use serde::Serialize;
use std::time::Duration;

/// Milliseconds of each step of a batch, under Spark's names. The steps do not overlap, so that together they are at most
/// `triggerExecution`; what is missing in it is waiting, mostly for the batch before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DurationMs {
    /// Reading, until it is known where the batch ends. A batch that is run again after a crash has none: its end was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_offset: Option<u64>,
    /// From records to events by partition. In a batch that is run again, also reading what its plan names.
    pub get_batch: u64,
    /// Writing and syncing the plan. A batch that is run again has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_commit: Option<u64>,
    /// From the first partition that begins to the last that has committed, and the delivery to the sink.
    pub add_batch: u64,
    /// All of it, from the trigger to the end of the delivery.
    pub trigger_execution: u64,
}

/// When a batch was triggered, and how long its steps took so far. One step begins where the one before ended.
#[derive(Debug, Clone, Copy)]
pub struct BatchTimes {
    /// When the host began to read for it.
    pub triggered_at: Millis,
    started: Stopwatch,
    steps: DurationMs,
    in_steps: u64,
}

impl BatchTimes {
    /// A batch is triggered now.
    pub fn start(now: Millis) -> Self {
        BatchTimes { triggered_at: now, started: Stopwatch::start(), steps: DurationMs::default(), in_steps: 0 }
    }

    /// Its records are read.
    pub fn read(&mut self) {
        self.steps.latest_offset = Some(self.step());
    }

    /// What passed since the last step was waiting for the batch before.
    pub fn waited(&mut self) {
        self.step();
    }

    /// Its events are found.
    pub fn keyed(&mut self) {
        self.steps.get_batch = self.step();
    }

    /// Its plan is written.
    pub fn planned(&mut self) {
        self.steps.wal_commit = Some(self.step());
    }

    /// It is delivered, which took so long after the partitions had worked on it: from the start of the first to the end of the
    /// last.
    pub fn delivered(self, worked: Option<Span>, delivery_ms: u64) -> DurationMs {
        let add_batch = worked.map_or(0, |worked| worked.ms()) + delivery_ms;
        DurationMs { add_batch, trigger_execution: self.started.elapsed_ms(), ..self.steps }
    }

    /// Time since the trigger.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Differences of one stopwatch, so that what each step loses below a millisecond is not lost in the sum.
    fn step(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.in_steps, self.started.elapsed_ms());
        self.in_steps - before
    }
}
