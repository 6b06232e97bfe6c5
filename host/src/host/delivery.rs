//! Delivering: batches that all partitions have committed go to the sink, in order.

use super::{Host, InFlight, Observer};
use crate::clock::Stopwatch;
use crate::event::{InputId, Millis, PartitionId};
use crate::fault;
use crate::partition::PartitionReport;
use crate::progress::{BatchRun, Progress, SourceRun};
use crate::source::Source;
use anyhow::{Context, Result, ensure};
use std::sync::atomic::AtomicBool;

impl Host {
    pub(super) fn settle_all(&mut self, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<()> {
        self.settle(source, observer, 1)
    }

    /// Waits until fewer than `in_flight` batches run, delivering those that are done.
    pub(super) fn settle(
        &mut self,
        source: &mut dyn Source,
        observer: &mut dyn Observer,
        in_flight: usize,
    ) -> Result<()> {
        while self.in_flight.len() >= in_flight.max(1) {
            let (PartitionId(partition), batch, report) = self.workers.next_report()?;
            let first = self.in_flight.front().map_or(0, |first| first.work.plan.batch.0);
            let place = (batch.0 - first) as usize;
            self.in_flight[place].reports[partition as usize] = Some(report);
            while self.in_flight.front().is_some_and(|first| first.reports.iter().all(Option::is_some)) {
                let done = self.in_flight.pop_front().expect("it was there just now");
                self.deliver(done, source, observer)?;
            }
        }
        Ok(())
    }

    fn deliver(&mut self, done: InFlight, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<()> {
        let InFlight { work, reports, times } = done;
        let batch = work.plan.batch;
        let delivering = Stopwatch::start();
        self.tell_committed(batch);
        let mut reports: Vec<PartitionReport> = reports.into_iter().flatten().collect();
        let output_bytes = reports.iter().map(|report| report.outputs.lines.len() as u64).sum();
        if self.delivered.is_none_or(|delivered| delivered < batch) {
            ensure!(self.release.wait(batch, &AtomicBool::new(false))?, "batch {batch} was not released");
            let blocks: Vec<_> = reports.iter_mut().map(|report| std::mem::take(&mut report.outputs)).collect();
            fault::point("deliver-begin");
            self.sink
                .deliver(batch, &blocks)
                .with_context(|| format!("failed to deliver the outputs of batch {batch}"))?;
            fault::point("delivered");
            for (report, block) in reports.iter_mut().zip(blocks) {
                report.outputs.outputs = block.outputs;
            }
            self.delivered = Some(batch);
            self.tell_delivered();
        }
        let run = BatchRun {
            id: &self.id,
            run_id: &self.run_id,
            rule: &self.component.description().name,
            plan: &work.plan,
            triggered_at: times.triggered_at,
            triggered_before: self.last_trigger.replace(times.triggered_at),
            duration_ms: times.delivered(&reports, delivering.elapsed_ms()),
            event_times: work.input.extracted.events.iter().map(|event| Millis(event.time_ms)).collect(),
            sink: self.sink.description(),
            output_bytes,
        };
        let status = source.status();
        let bytes = status.iter().map(|status| status.bytes).reduce(sum_bytes).flatten();
        let inputs = (0..).map(InputId).zip(&self.settings.identity.inputs);
        let sources: Vec<SourceRun<'_>> = inputs
            .map(|(input, identity)| {
                let status = status.get(input.0 as usize);
                SourceRun {
                    name: &identity.name,
                    description: status.map_or_else(|| "memory".to_owned(), |status| status.description.clone()),
                    ranges: work.plan.ranges.iter().filter(|range| range.input == input).collect(),
                    rows: work.input.rows_of(input),
                    bytes: status.and_then(|status| status.bytes),
                }
            })
            .collect();
        let progress = Progress::new(run, &sources, &reports);
        self.plan_log.keep_progress(batch, serde_json::to_string(&progress)?);
        fault::point("progress-kept");
        observer.batch(&progress, bytes);
        Ok(())
    }
}

/// What [`Host::run_batch`] did.
#[derive(Default)]
pub struct BatchOutcome {
    /// The progress of the batch.
    pub progress: Option<Progress>,
}

impl Observer for BatchOutcome {
    fn batch(&mut self, progress: &Progress, _: Option<(u64, u64)>) {
        self.progress = Some(progress.clone());
    }
}

/// The sum of two (read, total), when both are known.
fn sum_bytes(all: Option<(u64, u64)>, one: Option<(u64, u64)>) -> Option<(u64, u64)> {
    all.zip(one).map(|(all, one)| (all.0 + one.0, all.1 + one.1))
}
