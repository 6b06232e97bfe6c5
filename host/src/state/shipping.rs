//! [`ShippingReader`]: what a batch did in a partition, read while the partition goes on, for a checkpoint.
//!
//! Reads are short: a long one would keep SQLite from using its log again. What a checkpoint still has to take stays in the file
//! (see [`Shipped`]), so whoever ships may lag behind without holding anything in memory, and goes on where it was after a restart.

use super::{
    DeadLetter, OutputBlock, dead_letter_table, delta_table, meta_table, outbox_table, partition_db, settings,
};
use crate::event::{BatchId, PartitionId};
use crate::plan::Plan;
use anyhow::{Context, Result};
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// The first batch of which, and of all after it, the file still has everything. Readers must not go by what they find: a batch
/// that did nothing has no rows.
const META_WHOLE_FROM: &str = "whole_from";

/// How far batches lie in a checkpoint: what they did stays in the files until it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shipped {
    /// There is no checkpoint, and nothing waits for one.
    #[default]
    NoCheckpoint,
    /// Batches up to this one do; none when not even the first one does.
    UpTo(Option<BatchId>),
}

/// What a batch did in a partition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BatchContent {
    /// The changed rows as [`super::delta::read`] reads them; empty when none changed.
    pub changes: Vec<u8>,
    /// Keys with state or a timeout after the batch; none when no row changed, and they are those of the batch before.
    pub rows: Option<u64>,
    /// What it put out.
    pub outputs: OutputBlock,
    /// What failed.
    pub dead_letters: Vec<DeadLetter>,
    /// The dead letters whose events ran again in it: the batch and the number of each.
    pub re_driven: Vec<(BatchId, u64)>,
}

/// Reads what batches did in a partition.
pub struct ShippingReader(Connection);

/// Reads the plans of a data folder while its host writes further ones.
pub struct PlanReader(Connection);

impl Shipped {
    /// Up to which batch rows may be deleted, when otherwise they may be deleted up to this one.
    pub(super) fn limit(self, needless: Option<BatchId>) -> Option<BatchId> {
        match self {
            Shipped::NoCheckpoint => needless,
            Shipped::UpTo(shipped) => needless.min(shipped),
        }
    }
}

impl ShippingReader {
    /// Opens the file of a partition.
    pub fn open(folder: &Path, partition: PartitionId) -> Result<Self> {
        open(&partition_db::path_of(folder, partition)).map(ShippingReader)
    }

    /// The last committed batch.
    pub fn committed(&self) -> Result<Option<BatchId>> {
        Ok(meta_table::get(&self.0, partition_db::META_BATCH)?.map(BatchId))
    }

    /// The first batch of which, and of all after it, the file has everything.
    pub fn whole_from(&self) -> Result<BatchId> {
        let transaction = self.0.unchecked_transaction()?;
        let from: Option<u64> = meta_table::get(&transaction, META_WHOLE_FROM)?;
        // A file that was not made batch by batch does not say it: nothing that it has is a whole batch.
        Ok(BatchId(from.unwrap_or(self.committed()?.map_or(0, |last| last.0 + 1))))
    }

    /// What a committed batch did. It must be one of which the file has everything.
    pub fn read(&self, batch: BatchId) -> Result<BatchContent> {
        let transaction = self.0.unchecked_transaction()?;
        let (rows, changes) = delta_table::get(&transaction, batch)?.unzip();
        Ok(BatchContent {
            changes: changes.unwrap_or_default(),
            rows,
            outputs: outbox_table::get(&transaction, batch)?.unwrap_or_default(),
            dead_letters: dead_letter_table::of_batch(&transaction, batch)?,
            re_driven: dead_letter_table::re_driven_in(&transaction, batch)?,
        })
    }
}

impl PlanReader {
    /// Opens the plan log of a data folder.
    pub fn open(folder: &Path) -> Result<Self> {
        open(&folder.join("plan.db")).map(PlanReader)
    }

    /// The plan of a batch; none when it is not kept any more, or not made yet.
    pub fn plan(&self, batch: BatchId) -> Result<Option<Plan>> {
        let mut statement = self.0.prepare_cached("SELECT plan FROM plan WHERE batch = ?1")?;
        let found: Option<String> = statement.query_row([batch.0], |row| row.get(0)).optional()?;
        found.map(|text| serde_json::from_str(&text).context("failed to read a plan")).transpose()
    }
}

/// A commit: unless the file has everything of batches before it, it has from this one on.
pub(super) fn begin(connection: &Connection, batch: BatchId) -> Result<()> {
    match meta_table::get::<u64>(connection, META_WHOLE_FROM)? {
        Some(_) => Ok(()),
        None => meta_table::set(connection, META_WHOLE_FROM, batch.0),
    }
}

/// Rows of batches up to this one may be gone.
pub(super) fn note_deleted(connection: &Connection, to: BatchId) -> Result<()> {
    let from: Option<u64> = meta_table::get(connection, META_WHOLE_FROM)?;
    if from.is_some_and(|from| from <= to.0) {
        meta_table::set(connection, META_WHOLE_FROM, to.0 + 1)?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<Connection> {
    settings::open_read_only(path)?.with_context(|| format!("{} is empty: its host has made no tables", path.display()))
}
