//! The host and its checkpoint: what it tells the checkpoint, and where it waits for it.

use super::{Host, POLL, Settings, wait};
use crate::checkpoint::Checkpointer;
use crate::clock::Clock;
use crate::event::BatchId;
use crate::input::BatchInput;
use crate::plan::{Identity, Plan};
use crate::state::{PlanLog, Shipped};
use anyhow::Result;
use std::sync::atomic::AtomicBool;

/// Opens the checkpoint of a data folder, when there is to be one.
pub(super) fn open(
    settings: &Settings,
    plan_log: &mut PlanLog,
    identity: &Identity,
    clock: &Clock,
) -> Result<Option<Checkpointer>> {
    let Some(of_checkpoint) = &settings.checkpoint else { return Ok(None) };
    let checkpoint = Checkpointer::open(of_checkpoint, &settings.folder, identity, plan_log, clock)?;
    plan_log.set_shipped(checkpoint.shipped());
    Ok(Some(checkpoint))
}

impl Host {
    /// Keeps the host before from going on, when the checkpoint was taken over, and tells which plans there are.
    pub(super) fn fence(&mut self) -> Result<()> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        if checkpoint.is_fence_missing(&self.plan_log)? {
            self.components.keep(&self.component)?;
            loop {
                let fence = self.fence_plan();
                let adopted = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.fence(&fence).transpose());
                let adopted = adopted.transpose()?;
                let is_fence = adopted.is_none();
                let plan = adopted.unwrap_or(fence);
                self.plan_log.append(&plan, self.delivered)?;
                self.set_last(plan);
                if is_fence {
                    break;
                }
            }
            if let Some(checkpoint) = &self.checkpoint {
                checkpoint.fence_written(&self.plan_log)?;
            }
        }
        if let (Some(checkpoint), Some(last)) = (&self.checkpoint, &self.last) {
            checkpoint.planned(last.batch)?;
        }
        Ok(())
    }

    /// A plan that reads nothing. The watermark stays where it is, so that no event is late that would not be without it.
    fn fence_plan(&self) -> Plan {
        let plan = self.plan(&BatchInput::default(), None);
        match &self.last {
            Some(last) => Plan { watermark: last.watermark, late_watermark: last.watermark, ..plan },
            None => plan,
        }
    }

    /// No batch is running: what a crash interrupted is finished.
    pub(super) fn begin_checkpoint(&mut self) -> Result<()> {
        self.checkpoint.as_mut().map_or(Ok(()), |checkpoint| checkpoint.begin(&self.plan_log))
    }

    /// A plan was written.
    pub(super) fn tell_planned(&mut self, batch: BatchId) -> Result<()> {
        match &self.checkpoint {
            Some(checkpoint) => {
                self.plan_log.set_shipped(checkpoint.shipped());
                checkpoint.planned(batch)
            }
            None => Ok(()),
        }
    }

    /// All partitions have committed a batch.
    pub(super) fn tell_committed(&self, batch: BatchId) {
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.committed(batch);
        }
    }

    /// Outputs were delivered.
    pub(super) fn tell_delivered(&self) {
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.delivered(self.delivered);
        }
    }

    /// How far batches lie in the checkpoint.
    pub(super) fn shipped(&self) -> Shipped {
        self.checkpoint.as_ref().map_or(Shipped::NoCheckpoint, Checkpointer::shipped)
    }

    /// Whether nothing is uploaded before all that a crash interrupted is finished.
    pub(super) fn waits_to_begin(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(Checkpointer::needs_beginning)
    }

    /// Fails when the checkpoint will take nothing more, such as when another host has taken over.
    pub(super) fn check_checkpoint(&self) -> Result<()> {
        self.checkpoint.as_ref().map_or(Ok(()), Checkpointer::check)
    }

    /// Whether nothing may be read now because the checkpoint lags behind. Then some time has passed.
    pub(super) fn is_held_back(&self, stop: &AtomicBool) -> Result<bool> {
        let holds_back = match &self.checkpoint {
            Some(checkpoint) => checkpoint.holds_back()?,
            None => false,
        };
        if holds_back {
            wait(POLL, stop);
        }
        Ok(holds_back)
    }

    /// Waits until the checkpoint has everything.
    pub(super) fn finish_checkpoint(&self, stop: &AtomicBool) -> Result<()> {
        self.checkpoint.as_ref().map_or(Ok(()), |checkpoint| checkpoint.finish(stop))
    }
}
