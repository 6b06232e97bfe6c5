//! Up to which batch each key group was folded into the state table.

use crate::event::{BatchId, KEY_GROUPS, KeyGroup};
use anyhow::Result;
use rusqlite::{Connection, params};

pub(super) const SCHEMA: &str = "
    -- Deltas of later batches hold for the group's keys before the state table does. A group without a row was never folded.
    CREATE TABLE fold (key_group INTEGER PRIMARY KEY, batch INTEGER NOT NULL) STRICT;
";

pub(super) fn set(connection: &Connection, group: KeyGroup, batch: BatchId) -> Result<()> {
    let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO fold (key_group, batch) VALUES (?1, ?2)")?;
    statement.execute(params![group.0, batch.0])?;
    Ok(())
}

/// The batch of every key group.
pub(super) fn read(connection: &Connection) -> Result<Vec<Option<BatchId>>> {
    let mut folded = vec![None; KEY_GROUPS as usize];
    let mut statement = connection.prepare("SELECT key_group, batch FROM fold")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        folded[row.get::<_, usize>(0)?] = Some(BatchId(row.get(1)?));
    }
    Ok(folded)
}
