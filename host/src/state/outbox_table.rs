//! Outputs that are committed and not yet known to be delivered.

use super::outbox_reader::OutputSize;
use crate::event::BatchId;
use anyhow::Result;
use rusqlite::{Connection, params};

pub(super) const SCHEMA: &str = "
    -- One block for each batch: output number i of the block is line i, so the id (partition, batch, i) is not stored.
    CREATE TABLE outbox (batch INTEGER PRIMARY KEY, outputs INTEGER NOT NULL, lines BLOB NOT NULL) STRICT;
";

/// The outputs of one batch in one partition, each a line of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputBlock {
    /// How many.
    pub outputs: u64,
    /// The lines, each ended by a line feed.
    pub lines: Vec<u8>,
}

impl OutputBlock {
    /// One output, without its line feed; empty when there are fewer.
    pub fn output(&self, number: u64) -> &[u8] {
        self.lines.split(|&byte| byte == b'\n').nth(number as usize).unwrap_or_default()
    }
}

pub(super) fn insert(connection: &Connection, batch: BatchId, block: &OutputBlock) -> Result<()> {
    let mut statement = connection.prepare_cached("INSERT INTO outbox (batch, outputs, lines) VALUES (?1, ?2, ?3)")?;
    statement.execute(params![batch.0, block.outputs, block.lines])?;
    Ok(())
}

pub(super) fn delete_to(connection: &Connection, batch: BatchId) -> Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM outbox WHERE batch <= ?1")?;
    statement.execute([batch.0])?;
    Ok(())
}

/// The block of a batch that was committed; none when the batch had no outputs.
pub(super) fn get(connection: &Connection, batch: BatchId) -> Result<Option<OutputBlock>> {
    let mut statement = connection.prepare_cached("SELECT outputs, lines FROM outbox WHERE batch = ?1")?;
    let mut rows = statement.query([batch.0])?;
    match rows.next()? {
        None => Ok(None),
        Some(row) => Ok(Some(OutputBlock { outputs: row.get(0)?, lines: row.get(1)? })),
    }
}

/// Calls `each` with how much each batch from this one on has put out. The outputs themselves are not read.
pub(super) fn sizes(connection: &Connection, from: BatchId, mut each: impl FnMut(BatchId, OutputSize)) -> Result<()> {
    let mut statement =
        connection.prepare_cached("SELECT batch, outputs, length(lines) FROM outbox WHERE batch >= ?1")?;
    let mut rows = statement.query([from.0])?;
    while let Some(row) = rows.next()? {
        each(BatchId(row.get(0)?), OutputSize { outputs: row.get(1)?, bytes: row.get(2)? });
    }
    Ok(())
}
