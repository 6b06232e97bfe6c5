//! The deltas: the redo log of the overlay, and what each of the last batches changed.

use crate::event::BatchId;
use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, params};

pub(super) const SCHEMA: &str = "
    -- One blob for each batch: a changed state costs a few bytes here, and a page of its own only when it is folded.
    -- `rows` is how many keys have state or a timeout after the batch, for who ships it later.
    CREATE TABLE delta (batch INTEGER PRIMARY KEY, rows INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
";

pub(super) fn insert(connection: &Connection, batch: BatchId, rows: u64, bytes: &[u8]) -> Result<()> {
    let mut statement = connection.prepare_cached("INSERT INTO delta (batch, rows, bytes) VALUES (?1, ?2, ?3)")?;
    statement.execute(params![batch.0, rows, bytes])?;
    Ok(())
}

/// The rows after a batch and the blob; none when the batch changed nothing, or its delta was deleted.
pub(super) fn get(connection: &Connection, batch: BatchId) -> Result<Option<(u64, Vec<u8>)>> {
    let mut statement = connection.prepare_cached("SELECT rows, bytes FROM delta WHERE batch = ?1")?;
    Ok(statement.query_row([batch.0], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Deletes the deltas up to this batch.
pub(super) fn delete_to(connection: &Connection, batch: BatchId) -> Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM delta WHERE batch <= ?1")?;
    statement.execute([batch.0])?;
    Ok(())
}

/// Calls `each` with the deltas after one batch, or from the first on, up to another, oldest first.
pub(super) fn scan(
    connection: &Connection,
    after: Option<BatchId>,
    to: BatchId,
    mut each: impl FnMut(BatchId, &[u8]) -> Result<()>,
) -> Result<()> {
    let from = after.map_or(0, |after| after.0 + 1);
    let mut statement =
        connection.prepare_cached("SELECT batch, bytes FROM delta WHERE batch BETWEEN ?1 AND ?2 ORDER BY batch")?;
    let mut rows = statement.query([from, to.0])?;
    while let Some(row) = rows.next()? {
        each(BatchId(row.get(0)?), row.get_ref(1)?.as_blob()?)?;
    }
    Ok(())
}
