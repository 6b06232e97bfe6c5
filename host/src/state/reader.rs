//! Reading a partition's file from outside, also while its owner writes it.

use super::{DeadLetter, dead_letter_table, fold_table, meta_table, partition_db, settings, state_table};
use crate::event::{BatchId, KeyGroup, PartitionId};
use crate::group::Timeout;
use anyhow::{Context, Result};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;

/// A key's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// The key.
    pub key: Vec<u8>,
    /// The state and its schema.
    pub state: Option<(Vec<u8>, u32)>,
    /// The timeout.
    pub timeout: Option<Timeout>,
}

/// A partition as of its last commit when the reader was opened.
pub struct PartitionReader {
    connection: Connection,
    partition: PartitionId,
    partitions: u32,
}

impl PartitionReader {
    /// Opens the file of a partition and holds on to what it says now.
    pub fn open(folder: &Path, partition: PartitionId) -> Result<Self> {
        let path = partition_db::path_of(folder, partition);
        let connection = settings::open_read_only(&path)?
            .with_context(|| format!("{} is empty: no batch was committed yet", path.display()))?;
        // A read transaction: all reads see the same commit.
        connection.execute_batch("BEGIN")?;
        let partitions = meta_table::get(&connection, "partitions")?.unwrap_or(1);
        Ok(PartitionReader { connection, partition, partitions })
    }

    /// How many partitions the rule has.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// The last committed batch.
    pub fn committed(&self) -> Result<Option<BatchId>> {
        Ok(meta_table::get(&self.connection, "batch")?.map(BatchId))
    }

    /// Calls `each` with every key's row, in the order of key groups and keys.
    pub fn scan(&self, mut each: impl FnMut(KeyRow) -> Result<()>) -> Result<()> {
        let folded = fold_table::read(&self.connection)?;
        let overlay = partition_db::read_overlay(&self.connection, &folded)?;
        for group in partition_db::key_groups_of(self.partition, self.partitions) {
            let mut rows = BTreeMap::new();
            state_table::scan(&self.connection, group, |row| {
                rows.insert(row.key.clone(), KeyRow { key: row.key, state: row.state, timeout: row.timeout });
                Ok(())
            })?;
            for row in overlay.group(group) {
                let key = row.key.to_vec();
                if row.is_gone() {
                    rows.remove(&key);
                } else {
                    rows.insert(key.clone(), KeyRow { key, state: row.state.clone(), timeout: row.timeout });
                }
            }
            rows.into_values().try_for_each(&mut each)?;
        }
        Ok(())
    }

    /// The row of one key.
    pub fn get(&self, key: &[u8]) -> Result<Option<KeyRow>> {
        let group = KeyGroup::of(key);
        let folded = fold_table::read(&self.connection)?;
        let overlay = partition_db::read_overlay(&self.connection, &folded)?;
        if let Some(row) = overlay.get(xxhash_rust::xxh3::xxh3_64(key), key) {
            let found = KeyRow { key: key.to_vec(), state: row.state.clone(), timeout: row.timeout };
            return Ok((!row.is_gone()).then_some(found));
        }
        let row = state_table::get(&self.connection, group, key)?;
        Ok(row.map(|row| KeyRow { key: row.key, state: row.state, timeout: row.timeout }))
    }

    /// Calls `each` with every dead letter, oldest first.
    pub fn dead_letters(&self, each: impl FnMut(BatchId, DeadLetter) -> Result<()>) -> Result<()> {
        dead_letter_table::scan(&self.connection, each)
    }
}
