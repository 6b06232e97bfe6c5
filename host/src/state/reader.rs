//! [`PartitionReader`]: a partition's file, read from outside, also while its owner writes it.

use super::view::View;
use super::{
    DeadLetter, KeptLetter, dead_letter_table, delta, delta_table, history, meta_table, partition_db, settings,
};
use crate::event::{BatchId, KeyGroup, PartitionId};
use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use std::ops::RangeInclusive;
use std::path::Path;

pub use super::state_table::KeyRow;

/// A partition as of its last commit when the reader was opened, and as of the batches before it that are kept.
pub struct PartitionReader {
    connection: Connection,
    partition: PartitionId,
    partitions: u32,
    readable: Option<RangeInclusive<BatchId>>,
}

impl PartitionReader {
    /// Opens the file of a partition and holds on to what it says now.
    pub fn open(folder: &Path, partition: PartitionId) -> Result<Self> {
        let path = partition_db::path_of(folder, partition);
        let connection = settings::open_read_only(&path)?
            .with_context(|| format!("{} is empty: no batch was committed yet", path.display()))?;
        // A read transaction: all reads see the same commit.
        connection.execute_batch("BEGIN")?;
        let partitions = meta_table::get(&connection, partition_db::META_PARTITIONS)?.unwrap_or(1);
        let last = meta_table::get(&connection, partition_db::META_BATCH)?.map(BatchId);
        let readable = history::oldest(&connection)?.zip(last).map(|(oldest, last)| oldest..=last);
        Ok(PartitionReader { connection, partition, partitions, readable })
    }

    /// Which partition it is.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// How many partitions the rule has.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// The batches that can be read; none before the first commit.
    pub fn readable(&self) -> Option<RangeInclusive<BatchId>> {
        self.readable.clone()
    }

    /// The last committed batch.
    pub fn committed(&self) -> Option<BatchId> {
        self.readable.as_ref().map(|batches| *batches.end())
    }

    /// The oldest batch that can be read.
    pub fn oldest(&self) -> Option<BatchId> {
        self.readable.as_ref().map(|batches| *batches.start())
    }

    /// Calls `each` with every key's row, in the order of key groups and keys.
    pub fn scan(&self, each: impl FnMut(KeyRow) -> Result<()>) -> Result<()> {
        self.committed().map_or(Ok(()), |last| self.scan_at(last, each))
    }

    /// Calls `each` with every key's row as it was after a batch, in the order of key groups and keys.
    pub fn scan_at(&self, batch: BatchId, mut each: impl FnMut(KeyRow) -> Result<()>) -> Result<()> {
        self.check(batch)?;
        let groups = partition_db::key_groups_of(self.partition, self.partitions);
        let view = View::of(&self.connection, &groups, batch)?;
        groups.into_iter().try_for_each(|group| view.scan(&self.connection, group, &mut each))
    }

    /// The row of one key.
    pub fn get(&self, key: &[u8]) -> Result<Option<KeyRow>> {
        self.committed().map_or(Ok(None), |last| self.get_at(last, key))
    }

    /// The row of one key as it was after a batch.
    pub fn get_at(&self, batch: BatchId, key: &[u8]) -> Result<Option<KeyRow>> {
        self.check(batch)?;
        View::of(&self.connection, &[KeyGroup::of(key)], batch)?.get(&self.connection, key)
    }

    /// Calls `each` with every row that these batches wrote, batch after batch, in the order in which the rule was called. A
    /// row without state and timeout says that the key is gone.
    pub fn changes(
        &self,
        batches: RangeInclusive<BatchId>,
        mut each: impl FnMut(BatchId, KeyRow) -> Result<()>,
    ) -> Result<()> {
        self.check(*batches.start())?;
        self.check(*batches.end())?;
        let before = batches.start().0.checked_sub(1).map(BatchId);
        delta_table::scan(&self.connection, before, *batches.end(), |batch, bytes| {
            delta::read(bytes, |row| each(batch, row.to_key_row()))
                .with_context(|| format!("the delta of batch {batch}"))
        })
    }

    /// Calls `each` with every dead letter whose events did not run again, oldest first.
    pub fn dead_letters(&self, mut each: impl FnMut(BatchId, DeadLetter) -> Result<()>) -> Result<()> {
        self.kept_letters(|kept| if kept.re_driven.is_none() { each(kept.batch, kept.letter) } else { Ok(()) })
    }

    /// Calls `each` with every dead letter, oldest first.
    pub fn kept_letters(&self, each: impl FnMut(KeptLetter) -> Result<()>) -> Result<()> {
        dead_letter_table::scan(&self.connection, each)
    }

    fn check(&self, batch: BatchId) -> Result<()> {
        ensure!(
            self.readable.as_ref().is_some_and(|batches| batches.contains(&batch)),
            "batch {batch} of partition {} cannot be read, only {:?}",
            self.partition,
            self.readable
        );
        Ok(())
    }
}
