//! [`FaultySink`]: collects outputs, and fails when a run is to be stopped.

use anyhow::anyhow;
use keyfold::event::BatchId;
use keyfold::sink::{MemorySink, Sink, SinkError};
use keyfold::state::OutputBlock;
use std::sync::{Arc, Mutex, PoisonError};

/// What it says when it fails.
pub const FAULT: &str = "the disk of the sink is full";

/// When the sink fails, and with it the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkFails {
    /// The batch is committed, nothing of it is delivered.
    BeforeDelivery,
    /// The batch is delivered, and that is not written down.
    AfterDelivery,
}

/// Collects outputs. Clones share them, and the fault.
#[derive(Clone, Default)]
pub struct FaultySink {
    outputs: MemorySink,
    fails: Arc<Mutex<Option<SinkFails>>>,
}

impl FaultySink {
    /// From now on, fails so.
    pub fn set(&self, fails: Option<SinkFails>) {
        *self.fails.lock().unwrap_or_else(PoisonError::into_inner) = fails;
    }

    /// The lines since this was called last.
    pub fn take(&self) -> Vec<String> {
        self.outputs.take()
    }
}

impl Sink for FaultySink {
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        let fails = *self.fails.lock().unwrap_or_else(PoisonError::into_inner);
        if fails == Some(SinkFails::BeforeDelivery) {
            return Err(anyhow!(FAULT).into());
        }
        self.outputs.deliver(batch, blocks)?;
        if fails == Some(SinkFails::AfterDelivery) {
            return Err(anyhow!(FAULT).into());
        }
        Ok(())
    }

    fn description(&self) -> String {
        "outputs of a case".to_owned()
    }
}
