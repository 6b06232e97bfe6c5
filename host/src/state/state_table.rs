//! The folded states and timeouts, one row for each key.

use super::delta::DeltaRow;
use super::overlay::Row;
use crate::event::{KeyGroup, Millis};
use crate::group::{Timeout, TimeoutClock};
use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, params};

pub(super) const SCHEMA: &str = "
    -- The key group comes first, so that a group is one range: it is folded, and later moved, as a whole.
    -- A row has a state, a timeout, or both.
    CREATE TABLE state (
        key_group INTEGER NOT NULL CHECK (key_group BETWEEN 0 AND 1023),
        key BLOB NOT NULL,
        state BLOB,
        schema INTEGER,
        timeout_clock INTEGER CHECK (timeout_clock IN (1, 2)),
        timeout_ms INTEGER,
        PRIMARY KEY (key_group, key),
        CHECK ((state IS NULL) = (schema IS NULL)),
        CHECK ((timeout_clock IS NULL) = (timeout_ms IS NULL)),
        CHECK (state IS NOT NULL OR timeout_clock IS NOT NULL)
    ) STRICT, WITHOUT ROWID;
    -- Finds what is due without looking at what is not.
    CREATE INDEX state_due ON state (timeout_clock, timeout_ms) WHERE timeout_clock IS NOT NULL;
";

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

impl KeyRow {
    /// Whether the row has neither state nor timeout: it says that the key is gone.
    pub fn is_gone(&self) -> bool {
        self.state.is_none() && self.timeout.is_none()
    }

    /// The row as deltas have it.
    pub fn as_delta_row(&self) -> DeltaRow<'_> {
        let state = self.state.as_ref().map(|(state, schema)| (state.as_slice(), *schema));
        DeltaRow { key: &self.key, state, timeout: self.timeout }
    }
}

pub(super) fn get(connection: &Connection, group: KeyGroup, key: &[u8]) -> Result<Option<KeyRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT key, state, schema, timeout_clock, timeout_ms FROM state WHERE key_group = ?1 AND key = ?2",
    )?;
    Ok(statement.query_row(params![group.0, key], read_row).optional()?)
}

/// Calls `each` with every row of a key group, in the order of keys.
pub(super) fn scan(connection: &Connection, group: KeyGroup, mut each: impl FnMut(KeyRow) -> Result<()>) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT key, state, schema, timeout_clock, timeout_ms FROM state WHERE key_group = ?1 ORDER BY key",
    )?;
    let rows = statement.query_map(params![group.0], read_row)?;
    for row in rows {
        each(row?)?;
    }
    Ok(())
}

pub(super) fn put(connection: &Connection, group: KeyGroup, row: &Row) -> Result<()> {
    if row.is_gone() {
        let mut statement = connection.prepare_cached("DELETE FROM state WHERE key_group = ?1 AND key = ?2")?;
        statement.execute(params![group.0, &*row.key])?;
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO state (key_group, key, state, schema, timeout_clock, timeout_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    statement.execute(params![
        group.0,
        &*row.key,
        row.state.as_ref().map(|(state, _)| state.as_slice()),
        row.state.as_ref().map(|(_, schema)| *schema),
        row.timeout.map(|timeout| timeout.clock as u8),
        row.timeout.map(|timeout| timeout.at.0),
    ])?;
    Ok(())
}

/// Calls `each` with the keys whose timeout lies in `[from, to)`, by due time, until it returns false.
pub(super) fn due(
    connection: &Connection,
    clock: TimeoutClock,
    from: Millis,
    to: Millis,
    mut each: impl FnMut(&[u8], Millis) -> bool,
) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT key, timeout_ms FROM state
         WHERE timeout_clock = ?1 AND timeout_clock IS NOT NULL AND timeout_ms >= ?2 AND timeout_ms < ?3
         ORDER BY timeout_ms",
    )?;
    let mut rows = statement.query(params![clock as u8, from.0, to.0])?;
    while let Some(row) = rows.next()? {
        if !each(row.get_ref(0)?.as_blob()?, Millis(row.get(1)?)) {
            break;
        }
    }
    Ok(())
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<KeyRow> {
    let state: Option<Vec<u8>> = row.get(1)?;
    let schema: Option<u32> = row.get(2)?;
    let clock: Option<u8> = row.get(3)?;
    let at: Option<i64> = row.get(4)?;
    Ok(KeyRow {
        key: row.get(0)?,
        state: state.zip(schema),
        timeout: clock.and_then(TimeoutClock::from_number).zip(at).map(|(clock, at)| Timeout { clock, at: Millis(at) }),
    })
}
