//! Delivering, as the host sees it: batches that all partitions have committed are handed to the deliverer, and what it reports
//! becomes progress. While too much waits in the outbox, no batch is planned.

use super::deliverer::{Delivered, News};
use super::deliveries::Waiting;
use super::{Host, InFlight, Observer, POLL};
use crate::clock::{Span, Stopwatch};
use crate::event::{BatchId, InputId, Millis, PartitionId};
use crate::fault;
use crate::partition::PartitionReport;
use crate::plan::Plan;
use crate::progress::{BatchRun, BatchTimes, EventTimes, Progress, SourceRun};
use crate::source::Source;
use crate::state::{OutputBlock, OutputSize};
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// When a run is to stop, a sink that takes outputs gets so long to take the rest.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A batch that all partitions have committed.
struct Committed<'a> {
    plan: &'a Plan,
    times: BatchTimes,
    reports: Vec<PartitionReport>,
    event_times: EventTimes,
    /// Records read, by input.
    rows: Vec<u64>,
    size: OutputSize,
}

impl Host {
    pub(super) fn settle_all(&mut self, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<()> {
        self.settle(source, observer, 1)
    }

    /// Waits until fewer than `in_flight` batches run, handing over those that are done.
    pub(super) fn settle(
        &mut self,
        source: &mut dyn Source,
        observer: &mut dyn Observer,
        in_flight: usize,
    ) -> Result<()> {
        while self.in_flight.len() >= in_flight.max(1) {
            let (partition, batch, report) = self.workers.next_report()?;
            self.reported(partition, batch, report, source, observer)?;
        }
        self.take_news(observer)
    }

    /// Hands over the batches that are done, without waiting for others.
    pub(super) fn settle_done(&mut self, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<()> {
        while let Some((partition, batch, report)) = self.workers.report()? {
            self.reported(partition, batch, report, source, observer)?;
        }
        self.take_news(observer)
    }

    fn reported(
        &mut self,
        PartitionId(partition): PartitionId,
        batch: BatchId,
        report: PartitionReport,
        source: &mut dyn Source,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let first = self.in_flight.front().map_or(0, |first| first.work.plan.batch.0);
        let place = (batch.0 - first) as usize;
        self.generations.reported(PartitionId(partition), &report);
        self.in_flight[place].reports[partition as usize] = Some(report);
        while self.in_flight.front().is_some_and(|first| first.reports.iter().all(Option::is_some)) {
            let done = self.in_flight.pop_front().expect("it was there just now");
            self.committed(done, source, observer)?;
        }
        Ok(())
    }

    /// All partitions have committed a batch: its outputs are handed over, its input is dropped.
    fn committed(&mut self, done: InFlight, source: &dyn Source, observer: &mut dyn Observer) -> Result<()> {
        let InFlight { work, reports, times } = done;
        let batch = work.plan.batch;
        self.uncommitted = self.uncommitted.max(BatchId(batch.0 + 1));
        self.tell_committed(batch);
        let mut reports: Vec<PartitionReport> = reports.into_iter().flatten().collect();
        observer.committed(&work.plan, &reports);
        self.generations.committed(&work.plan, &reports);
        if !work.plan.older.is_empty() {
            self.let_go_of_components();
            observer.older_rows(&self.generations.left());
        }
        let size = OutputSize {
            outputs: reports.iter().map(|report| report.outputs.outputs).sum(),
            bytes: reports.iter().map(|report| report.outputs.lines.len() as u64).sum(),
        };
        self.settings.hosting.cpu.made_outputs(size.outputs);
        let outputs = |report: &mut PartitionReport| OutputBlock {
            lines: std::mem::take(&mut report.outputs.lines),
            outputs: report.outputs.outputs,
        };
        let blocks = reports.iter_mut().map(outputs).collect();
        let committed = Committed {
            plan: &work.plan,
            times,
            reports,
            event_times: work.input.extracted.events.iter().map(|event| Millis(event.time_ms)).collect(),
            rows: self.inputs().map(|input| work.input.rows_of(input)).collect(),
            size,
        };
        let waiting = self.waiting(committed, source);
        if batch < self.deliveries.next() {
            // A partition was behind the others, and what the batch puts out was delivered before.
            return self.report(waiting, 0, observer);
        }
        self.deliveries.hand_over(batch, waiting, Some(blocks));
        observer.outbox(&self.deliveries.outbox());
        Ok(())
    }

    /// Hands over a batch that all partitions had committed before a restart. Nothing of it is known but its plan and outputs.
    pub(super) fn hand_over_committed(&mut self, plan: &Plan, size: OutputSize, source: &dyn Source) {
        let mut reports = vec![PartitionReport::default(); self.settings.identity.partitions as usize];
        if let Some(first) = reports.first_mut() {
            (first.rows_total, first.outputs.outputs) = (self.workers.at_start().rows, size.outputs);
        }
        let committed = Committed {
            plan,
            times: BatchTimes::start(self.clock.now()),
            reports,
            event_times: EventTimes::default(),
            rows: self.inputs().map(|_| 0).collect(),
            size,
        };
        let waiting = self.waiting(committed, source);
        self.deliveries.hand_over(plan.batch, waiting, None);
    }

    fn inputs(&self) -> impl Iterator<Item = InputId> {
        (0..self.settings.identity.inputs.len() as u32).map(InputId)
    }

    fn waiting(&mut self, committed: Committed<'_>, source: &dyn Source) -> Waiting {
        let Committed { plan, times, reports, event_times, rows, size } = committed;
        let run = BatchRun {
            id: &self.id,
            run_id: &self.run_id,
            rule: &self.component.description().name,
            plan,
            triggered_at: times.triggered_at,
            triggered_before: self.last_trigger.replace(times.triggered_at),
            event_times,
            sink: self.deliveries.sink.clone(),
            output_bytes: size.bytes,
        };
        let status = source.status();
        let source_bytes = status.iter().map(|status| status.bytes).reduce(sum_bytes).flatten();
        let inputs = self.inputs().zip(&self.settings.identity.inputs).zip(rows);
        let sources: Vec<SourceRun<'_>> = inputs
            .map(|((input, identity), rows)| {
                let status = status.get(input.0 as usize);
                SourceRun {
                    name: &identity.name,
                    description: status.map_or_else(|| "memory".to_owned(), |status| status.description.clone()),
                    ranges: plan.ranges.iter().filter(|range| range.input == input).collect(),
                    rows,
                    bytes: status.and_then(|status| status.bytes),
                }
            })
            .collect();
        let progress = Progress::new(run, &sources, &reports);
        let worked = reports.iter().filter_map(|report| report.worked).reduce(Span::join);
        Waiting { progress, times, worked, source_bytes, size }
    }

    /// Takes what the deliverer has reported.
    pub(super) fn take_news(&mut self, observer: &mut dyn Observer) -> Result<()> {
        while let Some(news) = self.deliveries.deliverer.news() {
            self.take(news, observer)?;
        }
        Ok(())
    }

    /// Waits a little for something that the deliverer reports.
    pub(super) fn wait_for_news(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.check_checkpoint()?;
        match self.deliveries.deliverer.news_within(POLL)? {
            Some(news) => self.take(news, observer)?,
            // A sink that fails is no news, and whoever watches wants to know.
            None => observer.outbox(&self.deliveries.outbox()),
        }
        Ok(())
    }

    fn take(&mut self, news: News, observer: &mut dyn Observer) -> Result<()> {
        let Delivered { batch, took_ms, refused } = match news {
            News::Delivered(delivered) => delivered,
            News::Failed(error) => return Err(error),
        };
        let waiting = self.deliveries.take(batch, refused.len());
        self.delivered = Some(batch);
        self.tell_delivered();
        self.plan_log.keep_refused(refused);
        self.report(waiting, took_ms, observer)
    }

    fn report(&mut self, waiting: Waiting, took_ms: u64, observer: &mut dyn Observer) -> Result<()> {
        let Waiting { mut progress, times, worked, source_bytes, .. } = waiting;
        progress.delivered(times.delivered(worked, took_ms));
        self.plan_log.keep_progress(progress.batch_id, serde_json::to_string(&progress)?);
        fault::point("progress-kept");
        observer.outbox(&self.deliveries.outbox());
        observer.batch(&progress, source_bytes);
        Ok(())
    }

    /// Waits while too much waits for the sink, until the run is to stop, or until somebody asks for another version.
    pub(super) fn hold_back(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<()> {
        let is_asked =
            |stop: &AtomicBool, host: &Self| stop.load(Ordering::Relaxed) || host.settings.control.has_activation();
        while self.deliveries.is_full() && !is_asked(stop, self) {
            self.deliveries.say_that_it_is_full();
            self.wait_for_news(observer)?;
            self.plan_log.show_progress(self.delivered)?;
        }
        Ok(())
    }

    /// Waits until all batches are delivered. When the run is to stop, a sink that fails is not waited for, and any other one
    /// not for long: what is left waits in the outbox.
    pub(super) fn finish_delivery(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<()> {
        let mut stopping = None;
        while !self.deliveries.is_empty() {
            if stop.load(Ordering::Relaxed) {
                let stopping = *stopping.get_or_insert_with(Stopwatch::start);
                if self.deliveries.deliverer.is_failing() || stopping.elapsed() > STOP_GRACE {
                    self.deliveries.deliverer.pause();
                    self.take_news(observer)?;
                    break;
                }
            }
            self.wait_for_news(observer)?;
        }
        observer.outbox(&self.deliveries.outbox());
        self.plan_log.set_delivered(self.delivered).context("failed to write how far delivery came")
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
