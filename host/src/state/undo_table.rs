//! What leads a key group back from a fold to the one before it, so that earlier batches can be read.

use crate::event::{BatchId, KEY_GROUPS, KeyGroup};
use anyhow::Result;
use rusqlite::{Connection, params};

pub(super) const SCHEMA: &str = "
    -- One blob for each key group that a commit folded: its changed rows as they were before, in the form of a delta.
    -- `batch` is the fold, `before` the one that the blob leads to; NULL when there was none, and the table held nothing.
    -- The batch comes first: undos are added at the end, and those that nobody needs any more are a range at the start.
    CREATE TABLE undo (
        batch INTEGER NOT NULL,
        key_group INTEGER NOT NULL CHECK (key_group BETWEEN 0 AND 1023),
        before INTEGER,
        bytes BLOB NOT NULL,
        PRIMARY KEY (batch, key_group),
        CHECK (before < batch)
    ) STRICT, WITHOUT ROWID;
";

/// Which way an undo leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UndoStep {
    pub group: KeyGroup,
    /// The fold that is undone.
    pub batch: BatchId,
    /// The fold before it; none when the group had never been folded.
    pub before: Option<BatchId>,
}

pub(super) fn insert(connection: &Connection, step: UndoStep, bytes: &[u8]) -> Result<()> {
    let mut statement =
        connection.prepare_cached("INSERT INTO undo (batch, key_group, before, bytes) VALUES (?1, ?2, ?3, ?4)")?;
    statement.execute(params![step.batch.0, step.group.0, step.before.map(|before| before.0), bytes])?;
    Ok(())
}

/// Deletes the undos of folds up to this batch, and calls `each` with the group and the fold of every one, in no order.
pub(super) fn delete_to(
    connection: &Connection,
    batch: BatchId,
    mut each: impl FnMut(KeyGroup, BatchId),
) -> Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM undo WHERE batch <= ?1 RETURNING key_group, batch")?;
    let mut rows = statement.query([batch.0])?;
    while let Some(row) = rows.next()? {
        each(KeyGroup(row.get(0)?), BatchId(row.get(1)?));
    }
    Ok(())
}

/// Calls `each` with the undos of folds after this batch, newest first.
pub(super) fn scan_back(
    connection: &Connection,
    batch: BatchId,
    mut each: impl FnMut(UndoStep, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut statement = connection
        .prepare_cached("SELECT batch, key_group, before, bytes FROM undo WHERE batch > ?1 ORDER BY batch DESC")?;
    let mut rows = statement.query([batch.0])?;
    while let Some(row) = rows.next()? {
        let before: Option<u64> = row.get(2)?;
        let step = UndoStep { batch: BatchId(row.get(0)?), group: KeyGroup(row.get(1)?), before: before.map(BatchId) };
        each(step, row.get_ref(3)?.as_blob()?)?;
    }
    Ok(())
}

/// For each key group the fold to which all its undos together lead; none for groups that have no undo.
pub(super) fn ends(connection: &Connection) -> Result<Vec<Option<Option<BatchId>>>> {
    let mut ends = vec![None; KEY_GROUPS as usize];
    // SQLite takes the other columns from the row that has the minimum.
    let mut statement = connection.prepare("SELECT key_group, before, MIN(batch) FROM undo GROUP BY key_group")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let before: Option<u64> = row.get(1)?;
        ends[row.get::<_, usize>(0)?] = Some(before.map(BatchId));
    }
    Ok(ends)
}
