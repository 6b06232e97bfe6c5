//! [`NewPartition`]: a partition's file that is made from rows that are known, and used when it is whole.

use super::delta::{DeltaBuilder, DeltaRow};
use super::partition_db::{self, META_BATCH, META_PARTITION, META_PARTITIONS, META_ROWS};
use super::{
    DeadLetter, OutputBlock, clean, dead_letter_table, delta_table, fold_table, history, meta_table, outbox_table,
    settings, state_table,
};
use crate::event::{BatchId, KeyGroup, PartitionId};
use anyhow::{Context, Result};
use rusqlite::Connection;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A file that is being made. All of its rows are in the table, folded at the batch that it begins with.
pub(super) struct NewPartition {
    connection: Connection,
    path: PathBuf,
    /// The batch that its rows are as of; none when nothing was committed yet.
    batch: Option<BatchId>,
    rows: u64,
    /// What the batch changed, of the keys of this partition.
    delta: DeltaBuilder,
}

impl NewPartition {
    /// Makes the file of a partition in this folder.
    pub fn create(folder: &Path, partition: PartitionId, partitions: u32, batch: Option<BatchId>) -> Result<Self> {
        let path = partition_db::path_of(folder, partition);
        let connection = settings::create_unsynced(&path, partition_db::SCHEMA)?;
        connection.execute_batch("BEGIN")?;
        meta_table::set(&connection, META_PARTITION, partition.0)?;
        meta_table::set(&connection, META_PARTITIONS, partitions)?;
        Ok(NewPartition { connection, path, batch, rows: 0, delta: DeltaBuilder::default() })
    }

    /// Adds a key's row. Fastest in the order of key groups and keys.
    pub fn put(&mut self, group: KeyGroup, row: DeltaRow<'_>) -> Result<()> {
        self.rows += 1;
        state_table::put(&self.connection, group, row)
    }

    /// Adds what the batch changed, so that its changes can be read as those of later ones can.
    pub fn put_change(&mut self, row: DeltaRow<'_>) {
        self.delta.push(row);
    }

    /// Adds a dead letter.
    pub fn put_dead_letter(&self, batch: BatchId, letter: DeadLetter) -> Result<()> {
        dead_letter_table::insert(&self.connection, batch, &[letter])
    }

    /// Adds outputs that are not delivered.
    pub fn put_outputs(&self, batch: BatchId, block: &OutputBlock) -> Result<()> {
        outbox_table::insert(&self.connection, batch, block)
    }

    /// Closes the file and waits until it is on the disk. Returns how many rows it has.
    pub fn finish(self, groups: &[KeyGroup]) -> Result<u64> {
        let NewPartition { connection, path, batch, rows, delta } = self;
        if let Some(batch) = batch {
            if delta.rows() > 0 {
                delta_table::insert(&connection, batch, &delta.finish())?;
            }
            groups.iter().try_for_each(|&group| fold_table::set(&connection, group, batch))?;
            history::begin_at(&connection, batch)?;
            meta_table::set(&connection, META_BATCH, batch.0)?;
        }
        meta_table::set(&connection, META_ROWS, rows)?;
        connection.execute_batch("COMMIT")?;
        clean::set(&connection)?;
        let close = || -> Result<()> {
            connection.close().map_err(|(_, error)| error)?;
            Ok(File::open(&path)?.sync_all()?)
        };
        close().with_context(|| format!("failed to write {}", path.display())).map(|()| rows)
    }
}
