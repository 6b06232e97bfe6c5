//! The deltas that are not folded whole yet: the redo log of the overlay.

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

/// Deletes the deltas up to this batch: every key group was folded at or after it.
pub(super) fn delete_to(connection: &Connection, batch: BatchId) -> Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM delta WHERE batch <= ?1")?;
    statement.execute([batch.0])?;
    Ok(())
}

/// Calls `each` with every delta, oldest first.
pub(super) fn scan(connection: &Connection, mut each: impl FnMut(BatchId, &[u8]) -> Result<()>) -> Result<()> {
    let mut statement = connection.prepare_cached("SELECT batch, bytes FROM delta ORDER BY batch")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(BatchId(row.get(0)?), row.get_ref(1)?.as_blob()?)?;
    }
    Ok(())
}
