//! [`Release`]: when the outputs of a batch may leave.

use crate::event::BatchId;
use anyhow::Result;
use std::sync::atomic::AtomicBool;

/// Says when the outputs of a batch that all partitions have committed may leave.
pub trait Release: Send + Sync {
    /// Waits until the outputs of this batch may leave, or until `give_up` is set: then false. An error when they may never.
    /// It is asked again right before each attempt to deliver, because another host may have taken over meanwhile.
    fn wait(&self, batch: BatchId, give_up: &AtomicBool) -> Result<bool>;
}

/// As soon as they are committed.
pub struct AfterCommit;

impl Release for AfterCommit {
    fn wait(&self, _: BatchId, _: &AtomicBool) -> Result<bool> {
        Ok(true)
    }
}
