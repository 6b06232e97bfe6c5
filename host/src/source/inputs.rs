//! [`Inputs`]: several sources as one. A batch takes a share of each and at least one record, so that none waits for another to
//! end.

use super::{ReadLimit, ReadStatus, Source, SourceStatus};
use crate::event::{InputId, OffsetRange, Positions, RecordBatch};
use anyhow::{Context, Result};

/// The inputs of a rule, by their numbers.
pub struct Inputs {
    sources: Vec<Box<dyn Source>>,
    /// What each had when it was read last. Those that had no more are asked first: what they leave of the batch goes to the others.
    status: Vec<ReadStatus>,
    /// Who is asked first changes, so that one whose next record is too large for a share gets its turn.
    turn: usize,
}

impl Inputs {
    /// Reads these sources; each knows its number already.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Self {
        let status = vec![ReadStatus::More; sources.len()];
        Inputs { sources, status, turn: 0 }
    }
}

impl Source for Inputs {
    fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.status.fill(ReadStatus::More);
        self.sources.iter_mut().try_for_each(|source| source.seek(positions))
    }

    fn want(&mut self, members: Option<&[String]>) -> Result<()> {
        self.sources.iter_mut().try_for_each(|source| source.want(members))
    }

    fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        self.turn = (self.turn + 1) % order.len().max(1);
        order.rotate_left(self.turn);
        order.sort_by_key(|&input| self.status[input] == ReadStatus::More);
        for (place, &input) in order.iter().enumerate() {
            let held = batch.records.len() + batch.rejected.len();
            let left = order.len() - place;
            let share = |max: usize, held: usize| held + max.saturating_sub(held).div_ceil(left).max(1);
            let share = ReadLimit {
                records_max: share(limit.records_max, held),
                bytes_max: share(limit.bytes_max, batch.text.len()),
            };
            self.status[input] = self.sources[input].read(share, batch)?;
        }
        let is = |status| move |found: &ReadStatus| *found == status;
        Ok(if self.status.iter().any(is(ReadStatus::More)) {
            ReadStatus::More
        } else if self.status.iter().all(is(ReadStatus::Ended)) {
            ReadStatus::Ended
        } else {
            ReadStatus::Caught
        })
    }

    fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        // The ranges of one input stand together.
        for of_input in ranges.chunk_by(|a, b| a.input == b.input) {
            let InputId(input) = of_input[0].input;
            let source = self.sources.get_mut(input as usize);
            source.with_context(|| format!("there is no input {input} any more"))?.replay(of_input, batch)?;
        }
        Ok(())
    }

    fn status(&self) -> Vec<SourceStatus> {
        self.sources.iter().flat_map(|source| source.status()).collect()
    }
}
