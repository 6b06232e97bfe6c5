//! [`FolderReader`]: partitions of one rule, read together, each as of the same batch.

use super::reader::{KeyRow, PartitionReader};
use super::split;
use crate::event::{BatchId, KeyGroup, PartitionId};
use anyhow::{Context, Result, ensure};
use std::ops::{Range, RangeInclusive};
use std::path::Path;

/// Some or all partitions of a rule. Each holds on to what it said when it was opened.
pub struct FolderReader(Vec<PartitionReader>);

impl FolderReader {
    /// Opens these partitions of a data folder.
    pub fn open(folder: &Path, partitions: Range<u32>) -> Result<Self> {
        split::finish(folder)?;
        let open = |id| PartitionReader::open(folder, PartitionId(id));
        let readers: Vec<_> = partitions.map(open).collect::<Result<_>>()?;
        ensure!(
            readers.windows(2).all(|pair| pair[0].partitions() == pair[1].partitions()),
            "the number of partitions has just been changed: read again"
        );
        Ok(FolderReader(readers))
    }

    /// The batches that can be read of all the partitions, of which one may be ahead of another. None when there is no such
    /// batch: before the first commit of all, or without history while a host runs.
    pub fn readable(&self) -> Option<RangeInclusive<BatchId>> {
        let ranges: Vec<_> = self.0.iter().map(PartitionReader::readable).collect::<Option<_>>()?;
        let oldest = ranges.iter().map(|range| *range.start()).max()?;
        let last = ranges.iter().map(|range| *range.end()).min()?;
        (oldest <= last).then_some(oldest..=last)
    }

    /// Fails with what can be read, unless this batch can be read of all the partitions.
    pub fn check(&self, batch: BatchId) -> Result<()> {
        let readable = self
            .readable()
            .with_context(|| format!("batch {batch} cannot be read: there is no batch yet that all partitions have"))?;
        let (oldest, last) = (readable.start(), readable.end());
        ensure!(batch <= *last, "there is no batch {batch} yet: batches {oldest} to {last} can be read");
        ensure!(
            batch >= *oldest,
            "batch {batch} is no longer kept: batches {oldest} to {last} can be read (history-batches says how many are)"
        );
        Ok(())
    }

    /// Calls `each` with every key's row, partition after partition, as of the last batch that all of them have. When none
    /// can be read of all, each partition shows its own last one.
    pub fn scan(&self, mut each: impl FnMut(PartitionId, KeyRow) -> Result<()>) -> Result<()> {
        match self.readable() {
            Some(batches) => self.scan_at(*batches.end(), each),
            None => self.0.iter().try_for_each(|reader| reader.scan(|row| each(reader.partition(), row))),
        }
    }

    /// The row of a key, as of the last batch that all the partitions have.
    pub fn get(&self, key: &[u8]) -> Result<Option<KeyRow>> {
        match self.readable() {
            Some(batches) => self.get_at(*batches.end(), key),
            None => Ok(None),
        }
    }

    /// The row of a key as it was after a batch.
    pub fn get_at(&self, batch: BatchId, key: &[u8]) -> Result<Option<KeyRow>> {
        self.check(batch)?;
        for reader in &self.0 {
            if KeyGroup::of(key).partition(reader.partitions()) == reader.partition() {
                return reader.get_at(batch, key);
            }
        }
        Ok(None)
    }

    /// Calls `each` with every key's row as it was after a batch, partition after partition.
    pub fn scan_at(&self, batch: BatchId, mut each: impl FnMut(PartitionId, KeyRow) -> Result<()>) -> Result<()> {
        self.check(batch)?;
        self.0.iter().try_for_each(|reader| reader.scan_at(batch, |row| each(reader.partition(), row)))
    }

    /// Calls `each` with every row that these batches wrote: batch after batch, within a batch partition after partition. A
    /// row without state and timeout says that the key is gone.
    pub fn changes(
        &self,
        batches: RangeInclusive<BatchId>,
        mut each: impl FnMut(BatchId, PartitionId, KeyRow) -> Result<()>,
    ) -> Result<()> {
        self.check(*batches.start())?;
        self.check(*batches.end())?;
        for batch in (batches.start().0..=batches.end().0).map(BatchId) {
            for reader in &self.0 {
                reader.changes(batch..=batch, |_, row| each(batch, reader.partition(), row))?;
            }
        }
        Ok(())
    }
}
