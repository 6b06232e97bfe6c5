//! [`RestoredPartition`]: a partition's file that is made at once, from rows that come from elsewhere: from a checkpoint, or from the
//! partitions that there were before a split.
//!
//! The file is of no use until it is whole, so nothing in it is synced before its end, and it has no log: this is several times
//! faster than commits are. Rows are collected in memory, newer ones over older ones, and go into the table in the order of key
//! groups and keys, by which the table is sorted.

use super::delta::{DeltaBuilder, DeltaRow};
use super::overlay::{Overlay, Row};
use super::partition_db::{self, key_groups_of};
use super::{
    DeadLetter, KeptLetter, OutputBlock, clean, dead_letter_table, delta, delta_table, fold_table, history, meta_table,
    outbox_table, settings, state_table,
};
use crate::event::{BatchId, KEY_GROUPS, KeyGroup, PartitionId};
use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// Rows in memory before they go into the table. Fewer would write pages of the table more often.
const ROWS_BYTES_MAX: usize = 96 * 1024 * 1024;

/// A partition's file that is being made.
pub struct RestoredPartition {
    connection: Connection,
    path: PathBuf,
    key_groups: Vec<KeyGroup>,
    is_ours: Vec<bool>,
    rows: Overlay,
    dead_letters: u64,
    outputs: u64,
    indexes: Vec<String>,
    last_changes: DeltaBuilder,
}

/// What a restored file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredCounts {
    /// Keys with state or a timeout.
    pub rows: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Outputs that are to be delivered.
    pub outputs: u64,
}

impl RestoredPartition {
    /// Begins the file in a folder that has none.
    pub fn create(folder: &Path, partition: PartitionId, partitions: u32) -> Result<Self> {
        let path = partition_db::path_of(folder, partition);
        let connection = settings::create_unsynced(&path, partition_db::SCHEMA)?;
        let key_groups = key_groups_of(partition, partitions);
        let mut is_ours = vec![false; KEY_GROUPS as usize];
        key_groups.iter().for_each(|group| is_ours[usize::from(group.0)] = true);
        // An index that is made at the end is sorted once; one that is there would be sought for each row.
        let indexes = settings::take_indexes(&connection, "state")?;
        connection.execute_batch("BEGIN")?;
        meta_table::set(&connection, partition_db::META_PARTITION, partition.0)?;
        meta_table::set(&connection, partition_db::META_PARTITIONS, partitions)?;
        Ok(RestoredPartition {
            connection,
            path,
            key_groups,
            is_ours,
            rows: Overlay::default(),
            dead_letters: 0,
            outputs: 0,
            indexes,
            last_changes: DeltaBuilder::default(),
        })
    }

    /// Puts a row over an earlier one of the key.
    pub fn put(&mut self, row: DeltaRow<'_>) -> Result<()> {
        let group = KeyGroup::of(row.key);
        ensure!(self.is_ours[usize::from(group.0)], "a key of key group {} is not of this partition", group.0);
        self.rows.apply(row);
        if self.rows.bytes() > ROWS_BYTES_MAX { self.write_rows() } else { Ok(()) }
    }

    /// Puts the changed rows of a batch.
    pub fn put_delta(&mut self, changes: &[u8]) -> Result<()> {
        if changes.is_empty() { Ok(()) } else { delta::read(changes, |row| self.put(row)) }
    }

    /// Puts outputs that are not known to be delivered.
    pub fn put_outputs(&mut self, batch: BatchId, block: &OutputBlock) -> Result<()> {
        if block.outputs == 0 {
            return Ok(());
        }
        self.outputs += block.outputs;
        outbox_table::insert(&self.connection, batch, block)
    }

    /// Puts a dead letter.
    pub fn put_dead_letter(&mut self, kept: &KeptLetter) -> Result<()> {
        self.dead_letters += 1;
        dead_letter_table::put(&self.connection, kept)
    }

    /// Puts a dead letter under the next number of its batch.
    pub fn add_dead_letter(&mut self, kept: KeptLetter) -> Result<()> {
        let number = dead_letter_table::next_number(&self.connection, kept.batch)?;
        self.put_dead_letter(&KeptLetter { number, ..kept })
    }

    /// Puts what the last batch changed, so that its changes can be read as those of later ones can. The rows have it already.
    pub fn put_change(&mut self, row: DeltaRow<'_>) {
        self.last_changes.push(row);
    }

    /// Puts the dead letters of a batch, and marks those whose events ran again in it.
    pub fn put_dead_letters(
        &mut self,
        batch: BatchId,
        letters: &[DeadLetter],
        re_driven: &[(BatchId, u64)],
    ) -> Result<()> {
        self.dead_letters += letters.len() as u64;
        dead_letter_table::insert(&self.connection, batch, letters)?;
        re_driven.iter().try_for_each(|&letter| dead_letter_table::mark_re_driven(&self.connection, letter, batch))
    }

    /// Ends the file as of a batch, or as of none, and syncs it.
    pub fn finish(mut self, batch: Option<BatchId>) -> Result<RestoredCounts> {
        self.write_rows()?;
        let counts = state_table::counts(&self.connection)?;
        let rows = counts.total();
        if let Some(batch) = batch {
            if self.last_changes.rows() > 0 {
                delta_table::insert(&self.connection, batch, rows, &self.last_changes.finish())?;
            }
            for &group in &self.key_groups {
                fold_table::set(&self.connection, group, batch)?;
            }
            history::begin_at(&self.connection, batch)?;
            meta_table::set(&self.connection, partition_db::META_BATCH, batch.0)?;
            meta_table::set(&self.connection, partition_db::META_ROWS, rows)?;
            meta_table::set(&self.connection, partition_db::META_ROW_COUNTS, counts.to_text()?)?;
        }
        self.indexes.iter().try_for_each(|index| self.connection.execute_batch(index))?;
        self.connection.execute_batch("COMMIT").with_context(|| format!("failed to write {}", self.path.display()))?;
        clean::set(&self.connection)?;
        settings::end_unsynced(self.connection, &self.path)?;
        Ok(RestoredCounts { rows, dead_letters: self.dead_letters, outputs: self.outputs })
    }

    fn write_rows(&mut self) -> Result<()> {
        for &group in &self.key_groups {
            let taken = self.rows.take_group(group);
            let mut rows: Vec<&Row> = taken.iter().collect();
            rows.sort_unstable_by(|a, b| a.key().cmp(b.key()));
            rows.into_iter().try_for_each(|row| state_table::put(&self.connection, group, row.as_delta_row()))?;
        }
        // Its heaps of timeouts still have entries of the rows that were taken.
        self.rows = Overlay::default();
        Ok(())
    }
}

/// Lets SQLite look at all pages and indexes of a file. An error says what is wrong.
pub fn check_integrity(path: &Path) -> Result<()> {
    let connection = settings::open_read_only(path)?.with_context(|| format!("{} is empty", path.display()))?;
    let mut statement = connection.prepare("PRAGMA integrity_check(10)")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    ensure!(lines == ["ok"], "{} is damaged: {}", path.display(), lines.join("; "));
    Ok(())
}
