//! The deltas: the redo log of the overlay, and what each of the last batches changed.

use crate::event::BatchId;
use anyhow::Result;
use rusqlite::{Connection, params};

pub(super) const SCHEMA: &str = "
    -- One blob for each batch: a changed state costs a few bytes here, and a page of its own only when it is folded.
    CREATE TABLE delta (batch INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
";

pub(super) fn insert(connection: &Connection, batch: BatchId, bytes: &[u8]) -> Result<()> {
    let mut statement = connection.prepare_cached("INSERT INTO delta (batch, bytes) VALUES (?1, ?2)")?;
    statement.execute(params![batch.0, bytes])?;
    Ok(())
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
