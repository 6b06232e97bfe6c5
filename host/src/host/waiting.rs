//! Waiting: until there is something to do, or until nobody knows when there will be.

use super::{Host, Observer, POLL};
use crate::clock::Stopwatch;
use crate::event::{BatchId, Millis, Positions};
use crate::source::{EmptySource, Source};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Nobody waits longer than this at once: a day, which any condition variable takes.
const FOREVER: Duration = Duration::from_secs(24 * 3600);
/// What the last batches did is shown to readers when nothing has happened for so long: before that it would only keep the next batch.
const SHOW_PROGRESS_AFTER: Duration = Duration::from_millis(200);
/// How often it is looked whether an input has become idle, so that it holds the watermark back no longer.
const IDLE_INPUTS_LOOK: Duration = Duration::from_secs(1);

/// Since when there has been nothing to do.
#[derive(Default)]
pub(super) struct Idle(Option<Stopwatch>);

impl Idle {
    /// There is something to do.
    pub fn end(&mut self) {
        self.0 = None;
    }

    fn elapsed(&mut self) -> Duration {
        self.0.get_or_insert_with(Stopwatch::start).elapsed()
    }
}

impl Host {
    /// Lets time pass, and takes what is reported and asked for meanwhile. No batch may be running.
    pub(super) fn pause(&mut self, pause: Duration, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<()> {
        let paused = Stopwatch::start();
        while paused.elapsed() < pause && !stop.load(Ordering::Relaxed) {
            self.activate_what_was_asked(&mut EmptySource, observer)?;
            let left = pause.saturating_sub(paused.elapsed());
            // Whoever is not told is not told to stop either.
            let step = if self.settings.hosting.is_told && !self.is_watching() { left } else { left.min(POLL) };
            self.settings.control.wait(step);
            self.check_checkpoint()?;
            self.take_news(observer)?;
            if !self.deliveries.is_empty() {
                observer.outbox(&self.deliveries.outbox());
            }
            self.plan_log.show_progress(self.delivered)?;
        }
        Ok(())
    }

    /// The source has no more while batches run: waits for what comes first, the end of one of them or news. False when none runs,
    /// or when nobody would tell of news.
    pub(super) fn wait_for_batches(&mut self, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<bool> {
        if !self.settings.hosting.is_told || self.in_flight.is_empty() {
            return Ok(false);
        }
        self.settings.control.wait(FOREVER);
        self.settle_done(source, observer)?;
        Ok(true)
    }

    /// Waits until there may be something to do. False when there was nothing for so long that the run may end.
    pub(super) fn wait_for_work(
        &mut self,
        idle: &mut Idle,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        if !self.settings.hosting.is_told {
            self.pause(POLL, stop, observer)?;
            return Ok(true);
        }
        let idle_for = idle.elapsed();
        let mut at_most = self.until_due()?;
        if idle_for < SHOW_PROGRESS_AFTER {
            at_most = at_most.min(SHOW_PROGRESS_AFTER - idle_for);
        } else {
            self.plan_log.show_progress(self.delivered)?;
        }
        if self.is_watching() {
            at_most = at_most.min(POLL);
        }
        if self.inputs_may_become_idle() {
            at_most = at_most.min(IDLE_INPUTS_LOOK);
        }
        if let Some(park_after) = self.settings.hosting.park_after {
            let left = self.park_after(park_after).saturating_sub(idle_for);
            if left.is_zero() && self.deliveries.is_empty() && self.checkpoint.is_none() {
                return Ok(false);
            }
            // What is still to be delivered is told of when it is.
            at_most = if left.is_zero() { at_most } else { at_most.min(left) };
        }
        self.settings.control.wait(at_most);
        self.check_checkpoint()?;
        self.take_news(observer)?;
        if !self.deliveries.is_empty() {
            observer.outbox(&self.deliveries.outbox());
        }
        Ok(true)
    }

    /// Waits while the tenant has put out more than it may. False when it has not.
    pub(super) fn is_over_outputs(
        &mut self,
        source: &mut dyn Source,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let wait = self.settings.hosting.cpu.outputs_wait();
        if wait.is_zero() {
            return Ok(false);
        }
        self.settle_all(source, observer)?;
        self.pause(wait, stop, observer)?;
        Ok(true)
    }

    /// When the next timeout in processing time is due. No batch may be running.
    pub fn next_due_in_processing_time(&self) -> Result<Option<Millis>> {
        Ok(self.next_due()?[0])
    }

    /// Whether all that was planned is committed and delivered.
    pub fn is_settled(&self) -> bool {
        self.deliveries.is_empty() && self.uncommitted == self.next_batch()
    }

    /// How far each input was read by batches that all partitions have committed. No batch may be running.
    pub fn committed_positions(&self) -> Result<Positions> {
        let mut positions = self.plan_log.positions()?;
        // The first range of an input's partition that is not committed comes last.
        for plan in self.plan_log.from(self.uncommitted)?.iter().rev() {
            for range in &plan.ranges {
                positions.insert((range.input, range.file.clone()), range.from);
            }
        }
        Ok(positions)
    }

    /// The last batch that all partitions have committed.
    pub fn last_committed(&self) -> Option<BatchId> {
        self.uncommitted.0.checked_sub(1).map(BatchId)
    }

    /// Keys with state or a timeout when the host was opened.
    pub fn keys_at_start(&self) -> u64 {
        self.workers.at_start().rows
    }

    /// Whether there is something to look at that tells nobody.
    fn is_watching(&self) -> bool {
        self.checkpoint.is_some() || (!self.deliveries.is_empty() && self.deliveries.deliverer.is_failing())
    }

    /// Until a timeout in processing time is due: strictly after its time.
    fn until_due(&self) -> Result<Duration> {
        let Some(due) = self.next_due()?[0] else { return Ok(FOREVER) };
        let ms = due.0.saturating_sub(self.clock.now().0).saturating_add(1);
        Ok(Duration::from_millis(ms.max(1) as u64).min(FOREVER))
    }

    /// With one input there is nothing that it could hold back.
    fn inputs_may_become_idle(&self) -> bool {
        let inputs = &self.settings.inputs;
        inputs.len() > 1 && inputs.iter().any(|input| input.watermark.idle_after.is_some())
    }

    /// Inputs become idle first: only an open host moves the watermark on.
    fn park_after(&self, park_after: Duration) -> Duration {
        let idle_after = self.settings.inputs.iter().filter_map(|input| input.watermark.idle_after).max();
        match idle_after.filter(|_| self.inputs_may_become_idle()) {
            Some(idle_after) => park_after.max(idle_after + 2 * IDLE_INPUTS_LOOK),
            None => park_after,
        }
    }
}
