//! [`EmptySource`]: nothing to read.

use super::{ReadLimit, ReadStatus, Source, SourceStatus};
use crate::event::{OffsetRange, Positions, RecordBatch};
use anyhow::{Result, bail};

/// A source without records. It stands for the source of batches that are handed in.
pub struct EmptySource;

impl Source for EmptySource {
    fn seek(&mut self, _: &Positions) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, _: ReadLimit, _: &mut RecordBatch) -> Result<ReadStatus> {
        Ok(ReadStatus::Ended)
    }

    fn replay(&mut self, _: &[OffsetRange], _: &mut RecordBatch) -> Result<()> {
        bail!("a batch that was handed in cannot be read again")
    }

    fn status(&self) -> Vec<SourceStatus> {
        Vec::new()
    }
}
