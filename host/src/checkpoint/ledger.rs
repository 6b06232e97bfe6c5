//! [`Ledger`]: how far batches have come on their way into the checkpoint. Shared by the host, the thread that delivers, and the
//! threads that upload.

use super::beginning::Beginning;
use super::refusal::Refusal;
use crate::event::BatchId;
use anyhow::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A flag that asks to give up is looked at this often.
const POLL: Duration = Duration::from_millis(50);

/// How far batches have come.
#[derive(Default)]
pub(super) struct Ledger {
    marks: Mutex<Marks>,
    changed: Condvar,
}

/// How far batches have come: each up to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reached {
    /// Planned.
    pub planned: Option<BatchId>,
    /// Committed by all partitions.
    pub committed: Option<BatchId>,
    /// Known to be delivered.
    pub delivered: Option<BatchId>,
    /// In the checkpoint.
    pub shipped: Option<BatchId>,
}

#[derive(Default)]
struct Marks {
    reached: Reached,
    /// Nothing is uploaded before: partitions must have come to the same batch first.
    is_begun: bool,
    /// What is uploaded first is at hand, or on its way.
    is_beginning: bool,
    beginning: Option<Beginning>,
    is_stopping: bool,
    /// Why no further batch will ever be shipped.
    failure: Option<String>,
    /// The store does not take what it is given.
    is_in_trouble: bool,
    /// No snapshot is due after so many batches were shipped.
    no_snapshot_due_at: Option<Option<BatchId>>,
}

/// What the uploader is to do.
pub(super) enum Task {
    Begin(Beginning),
    Ship(Reached),
    /// Nothing for some time.
    Idle,
    Stop,
}

impl Ledger {
    pub fn reached(&self) -> Reached {
        self.lock().reached
    }

    pub fn planned(&self, batch: BatchId) {
        self.change(|marks| marks.reached.planned = marks.reached.planned.max(Some(batch)));
    }

    pub fn committed(&self, batch: Option<BatchId>) {
        self.change(|marks| marks.reached.committed = marks.reached.committed.max(batch));
    }

    pub fn delivered(&self, batch: Option<BatchId>) {
        self.change(|marks| marks.reached.delivered = marks.reached.delivered.max(batch));
    }

    pub fn shipped(&self, batch: Option<BatchId>) {
        self.change(|marks| marks.reached.shipped = marks.reached.shipped.max(batch));
    }

    /// What has to come first.
    pub fn begin(&self, beginning: Beginning) {
        self.change(|marks| {
            marks.is_beginning = true;
            marks.beginning = Some(beginning);
        });
    }

    /// Nothing has to come first, or it is in the checkpoint.
    pub fn has_begun(&self) {
        self.change(|marks| marks.is_begun = true);
    }

    pub fn stop(&self) {
        self.change(|marks| marks.is_stopping = true);
    }

    pub fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    pub fn fail(&self, error: &anyhow::Error) {
        self.change(|marks| {
            marks.failure.get_or_insert_with(|| format!("{error:#}"));
        });
    }

    pub fn set_trouble(&self, is_in_trouble: bool) {
        self.change(|marks| marks.is_in_trouble = is_in_trouble);
    }

    pub fn no_snapshot_due_at(&self, shipped: Option<BatchId>) {
        self.change(|marks| marks.no_snapshot_due_at = Some(shipped));
    }

    /// Fails when no further batch will ever be shipped.
    pub fn check(&self) -> Result<()> {
        self.lock().check()
    }

    /// The next task: plans from this number on, or batches from that one on.
    pub fn next_task(&self, next_plan: u64, next: u64, idle_after: Duration) -> Task {
        let is_after = |mark: Option<BatchId>, next: u64| mark.is_some_and(|mark| mark.0 >= next);
        let mut marks = self.lock();
        let mut waited = Duration::ZERO;
        loop {
            let reached = marks.reached;
            if marks.is_stopping {
                return Task::Stop;
            }
            if let Some(beginning) = marks.beginning.take() {
                return Task::Begin(beginning);
            }
            if marks.is_begun && (is_after(reached.planned, next_plan) || is_after(reached.committed, next)) {
                return Task::Ship(reached);
            }
            if waited >= idle_after {
                return Task::Idle;
            }
            marks = self.wait(marks);
            waited += POLL;
        }
    }

    /// Waits until a batch is in the checkpoint; false when it is given up. Fails when it never will be.
    pub fn wait_shipped(&self, batch: BatchId, give_up: impl Fn() -> bool) -> Result<bool> {
        let mut marks = self.lock();
        while marks.reached.shipped.is_none_or(|shipped| shipped < batch) {
            marks.check()?;
            if marks.is_stopping || give_up() {
                return Ok(false);
            }
            marks = self.wait(marks);
        }
        Ok(true)
    }

    /// Waits until something holds of what was shipped; false when it is stopped before.
    pub fn wait_until(&self, holds: impl Fn(Option<BatchId>) -> bool) -> bool {
        let mut marks = self.lock();
        loop {
            if marks.is_stopping || marks.failure.is_some() {
                return false;
            }
            if marks.is_begun && holds(marks.reached.shipped) {
                return true;
            }
            marks = self.wait(marks);
        }
    }

    /// Waits between attempts, or until it is stopped.
    pub fn pause(&self, time: Duration, give_up: impl Fn() -> bool) {
        let mut waited = Duration::ZERO;
        let mut marks = self.lock();
        while waited < time && !marks.is_stopping && !give_up() {
            let step = POLL.min(time - waited);
            marks = self.changed.wait_timeout(marks, step).unwrap_or_else(PoisonError::into_inner).0;
            waited += step;
        }
    }

    /// Waits until everything that is committed is in the checkpoint, with the snapshots that are due. Once `stop` is set no snapshot
    /// is waited for, and nothing while the store does not answer. Returns how many batches are left.
    pub fn finish(&self, stop: &AtomicBool) -> Result<u64> {
        let mut marks = self.lock();
        loop {
            marks.check()?;
            let Reached { committed, shipped, .. } = marks.reached;
            let left = committed.map_or(0, |batch| batch.0 + 1) - shipped.min(committed).map_or(0, |batch| batch.0 + 1);
            let has_snapshots = marks.no_snapshot_due_at == Some(shipped) || committed.is_none();
            let is_asked_to_stop = stop.load(Ordering::Relaxed);
            if !marks.is_begun && !marks.is_beginning {
                // A run that was stopped before it could begin.
                return Ok(left);
            }
            if left == 0 && (has_snapshots || is_asked_to_stop) || is_asked_to_stop && marks.is_in_trouble {
                return Ok(left);
            }
            marks = self.wait(marks);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Marks)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        // Marks are single values: a thread that panicked between two of them leaves nothing half done.
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'l>(&self, marks: MutexGuard<'l, Marks>) -> MutexGuard<'l, Marks> {
        self.changed.wait_timeout(marks, POLL).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Marks {
    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => bail!(Refusal(failure.clone())),
            None => Ok(()),
        }
    }
}
