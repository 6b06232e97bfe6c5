//! [`OutboxReader`]: what the partitions of a folder have put out and is not delivered, read while their owners write.

use super::{OutputBlock, outbox_table, partition_db, settings};
use crate::event::{BatchId, PartitionId};
use anyhow::{Context, Result};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The outboxes of all partitions of a data folder.
#[derive(Debug, Clone)]
pub struct OutboxReader {
    folder: PathBuf,
    partitions: u32,
}

/// How much a batch put out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputSize {
    /// Outputs.
    pub outputs: u64,
    /// Their bytes, line ends included.
    pub bytes: u64,
}

impl OutboxReader {
    /// Reads the outboxes of this folder.
    pub fn new(folder: &Path, partitions: u32) -> Self {
        OutboxReader { folder: folder.to_owned(), partitions }
    }

    /// The outputs of a batch that all partitions have committed and that is not delivered, one block for each partition.
    ///
    /// Each file is opened for one statement: a reader that stayed would keep its owner from making the log of it short.
    pub fn read(&self, batch: BatchId) -> Result<Vec<OutputBlock>> {
        let of = |partition| Ok(outbox_table::get(&self.open(partition)?, batch)?.unwrap_or_default());
        let blocks = (0..self.partitions).map(|id| of(PartitionId(id))).collect::<Result<_>>();
        blocks.with_context(|| format!("failed to read the outputs of batch {batch}"))
    }

    /// How much each batch from this one on has put out. Batches without outputs are missing.
    pub fn sizes(&self, from: BatchId) -> Result<BTreeMap<BatchId, OutputSize>> {
        let mut sizes: BTreeMap<BatchId, OutputSize> = BTreeMap::new();
        for id in (0..self.partitions).map(PartitionId) {
            outbox_table::sizes(&self.open(id)?, from, |batch, size| {
                let sum = sizes.entry(batch).or_default();
                (sum.outputs, sum.bytes) = (sum.outputs + size.outputs, sum.bytes + size.bytes);
            })?;
        }
        Ok(sizes)
    }

    fn open(&self, partition: PartitionId) -> Result<Connection> {
        let path = partition_db::path_of(&self.folder, partition);
        settings::open_read_only(&path)?.with_context(|| format!("{} is empty", path.display()))
    }
}
