//! [`AfterCheckpoint`]: outputs leave when their batch is in the checkpoint, and no other host has taken that over.

use super::backoff::Backoff;
use super::epochs;
use super::ledger::Ledger;
use super::refusal::is_trouble_of_store;
use super::store::CheckpointStore;
use crate::event::BatchId;
use crate::release::Release;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::warn;

/// Releases outputs once their batch is in the checkpoint.
pub(super) struct AfterCheckpoint {
    pub ledger: Arc<Ledger>,
    pub store: Arc<CheckpointStore>,
    pub epoch: u64,
}

impl Release for AfterCheckpoint {
    fn wait(&self, batch: BatchId, give_up: &AtomicBool) -> Result<bool> {
        let gives_up = || give_up.load(Ordering::Relaxed);
        let attempt = || format!("the outputs of batch {batch} are held back");
        if !self.ledger.wait_shipped(batch, gives_up).with_context(attempt)? {
            return Ok(false);
        }
        let mut backoff = Backoff::default();
        loop {
            match epochs::check(&self.store, self.epoch) {
                Ok(()) => return Ok(true),
                Err(error) if is_trouble_of_store(&error) => {
                    let (wait, is_first) = backoff.failed();
                    if is_first {
                        warn!(
                            "{error:#}: outputs are held back until it can be told whether another host has taken over"
                        );
                    }
                    self.ledger.pause(wait, gives_up);
                    if gives_up() || self.ledger.is_stopping() {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error).with_context(attempt),
            }
        }
    }
}
