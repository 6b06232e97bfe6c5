//! Outputs that are committed and not yet known to be delivered.

use super::damage::{damaged, explained};
use super::outbox_reader::OutputSize;
use crate::event::BatchId;
use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const SCHEMA: &str = "
    -- One block for each batch: output number i of the block is line i, so the id (partition, batch, i) is not stored.
    -- The checksum is over both; what is delivered cannot be taken back.
    CREATE TABLE outbox (
        batch INTEGER PRIMARY KEY, outputs INTEGER NOT NULL, lines BLOB NOT NULL, checksum INTEGER NOT NULL
    ) STRICT;
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
    let mut statement =
        connection.prepare_cached("INSERT INTO outbox (batch, outputs, lines, checksum) VALUES (?1, ?2, ?3, ?4)")?;
    statement.execute(params![batch.0, block.outputs, block.lines, checksum(block)])?;
    Ok(())
}

pub(super) fn delete_to(connection: &Connection, batch: BatchId) -> Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM outbox WHERE batch <= ?1")?;
    statement.execute([batch.0])?;
    Ok(())
}

/// The block of a batch that was committed; none when the batch had no outputs.
pub(super) fn get(connection: &Connection, batch: BatchId) -> Result<Option<OutputBlock>> {
    let what = || format!("the outputs of batch {batch}");
    let read = || {
        let mut statement =
            connection.prepare_cached("SELECT outputs, lines, checksum FROM outbox WHERE batch = ?1")?;
        let block = |row: &rusqlite::Row<'_>| {
            Ok((OutputBlock { outputs: row.get(0)?, lines: row.get(1)? }, row.get::<_, i64>(2)?))
        };
        statement.query_row([batch.0], block).optional()
    };
    match read().map_err(|error| explained(connection, what(), error))? {
        None => Ok(None),
        Some((block, written)) if checksum(&block) == written => Ok(Some(block)),
        Some(_) => Err(damaged(connection, what(), "their checksum is wrong")),
    }
}

/// The batches after this one, or all, that put out something.
pub(super) fn batches_after(connection: &Connection, batch: Option<BatchId>) -> Result<Vec<BatchId>> {
    let mut statement = connection.prepare("SELECT batch FROM outbox WHERE batch >= ?1 ORDER BY batch")?;
    let batches = statement.query_map([batch.map_or(0, |batch| batch.0 + 1)], |row| row.get(0).map(BatchId))?;
    Ok(batches.collect::<rusqlite::Result<_>>()?)
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

fn checksum(block: &OutputBlock) -> i64 {
    xxh3_64_with_seed(&block.lines, block.outputs) as i64
}
