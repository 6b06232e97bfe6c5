//! [`MemorySink`]: collects outputs for scenarios and tests.

use super::{Sink, SinkError};
use crate::event::BatchId;
use crate::state::OutputBlock;
use std::sync::{Arc, Mutex, PoisonError};

/// Collects the lines of all batches. Clones share them.
#[derive(Clone, Default)]
pub struct MemorySink(Arc<Mutex<Vec<String>>>);

impl MemorySink {
    /// The lines since this was called last.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for MemorySink {
    fn deliver(&mut self, _: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for block in blocks {
            lines.extend(String::from_utf8_lossy(&block.lines).lines().map(str::to_owned));
        }
        Ok(())
    }

    fn description(&self) -> String {
        "memory".to_owned()
    }
}
