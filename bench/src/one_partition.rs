//! [`OnePartition`]: batches in a partition of its own, planned as a host would, which it does without.

use anyhow::Result;
use keyfold::event::{BatchId, Millis, PartitionId};
use keyfold::fair::CpuShare;
use keyfold::generation::Generation;
use keyfold::input::BatchInput;
use keyfold::limits::Limits;
use keyfold::partition::{Partition, PartitionReport, Work};
use keyfold::plan::Plan;
use keyfold::rule_log::ToTracing;
use keyfold::state::{Budget, Shipped};
use keyfold::wasm::Component;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A partition that has all keys.
pub struct OnePartition {
    partition: Partition,
    component: Arc<Component>,
    /// How far the watermark lies behind the events.
    delay: Duration,
    last: Option<Arc<Plan>>,
}

impl OnePartition {
    /// A new one in this folder.
    pub fn open(folder: &Path, component: Component, delay: Duration) -> Result<Self> {
        let partition = Partition::open(folder, PartitionId(0), 1, 0, &Budget::default())?;
        Ok(OnePartition { partition, component: Arc::new(component), delay, last: None })
    }

    /// The next batch, with the watermark that the events before it give, or one that is further.
    pub fn plan(&mut self, input: BatchInput, at_least: Option<Millis>) -> Work {
        let last = self.last.as_deref();
        let batch = last.map_or(BatchId(0), |plan| BatchId(plan.batch.0 + 1));
        let seen = last.and_then(|plan| plan.event_times_max[0]);
        let before = last.and_then(|plan| plan.watermark);
        let watermark = seen
            .map(|seen| Millis(seen.0 - self.delay.as_millis() as i64))
            .max(before)
            .max(at_least)
            .max(Some(Millis(0)));
        let plan = Arc::new(Plan {
            batch,
            ranges: input.records.ranges.clone(),
            time: Millis(0),
            watermark,
            late_watermark: before.or(Some(Millis(0))),
            event_times_max: vec![seen.max(input.event_times_max(1)[0])],
            seed: "07".repeat(16),
            digest: self.component.digest().to_owned(),
            parameters: "{}".to_owned(),
            limits: Limits::default(),
            batch_query: false,
            generation: Generation::default(),
            older: Vec::new(),
            sweep: None,
        });
        self.last = Some(Arc::clone(&plan));
        Work {
            // Outputs leave the outbox some batches later.
            delivered: batch.0.checked_sub(2).map(BatchId),
            plan,
            component: Arc::clone(&self.component),
            drained: Vec::new(),
            input: Arc::new(input),
            shipped: Shipped::NoCheckpoint,
            cpu: CpuShare::default(),
            log: Arc::new(ToTracing),
            envelope: None,
            awaited: None,
            twice: false,
        }
    }

    /// Runs a batch that was planned.
    pub fn run(&mut self, work: &Work) -> Result<PartitionReport> {
        self.partition.run(work)
    }
}
