//! The folded states and timeouts, one row for each key.

use super::damage::{damaged, explained};
use super::delta::DeltaRow;
use super::row_counts::RowCounts;
use crate::event::{KeyGroup, Millis};
use crate::generation::Mark;
use crate::group::{Timeout, TimeoutClock};
use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) const SCHEMA: &str = "
    -- The key group comes first, so that a group is one range: it is folded, and later moved, as a whole.
    -- A row has a state, a timeout, or both. The checksum is over key, state, schema and timeout, and every read checks it:
    -- SQLite sees whether its pages hang together, not whether a state is the one that was written.
    CREATE TABLE state (
        key_group INTEGER NOT NULL CHECK (key_group BETWEEN 0 AND 1023),
        key BLOB NOT NULL,
        state BLOB,
        schema INTEGER,
        timeout_clock INTEGER CHECK (timeout_clock IN (1, 2)),
        timeout_ms INTEGER,
        checksum INTEGER NOT NULL,
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
    /// The state and the number of its [`Mark`]; see [`KeyRow::value`].
    pub state: Option<(Vec<u8>, u32)>,
    /// The timeout.
    pub timeout: Option<Timeout>,
}

impl KeyRow {
    /// Whether the row has neither state nor timeout: it says that the key is gone.
    pub fn is_gone(&self) -> bool {
        self.state.is_none() && self.timeout.is_none()
    }

    /// The state and the schema that a rule wrote it under, without what the host keeps beside: whatever shows or hands out a row
    /// takes them from here.
    pub fn value(&self) -> Option<(&[u8], u32)> {
        let (state, number) = self.state.as_ref()?;
        Mark::of(Some(*number)).schema.map(|schema| (state.as_slice(), schema))
    }

    /// The generation and the schema.
    pub fn mark(&self) -> Mark {
        Mark::of(self.state.as_ref().map(|(_, number)| *number))
    }

    /// The row as deltas have it.
    pub fn as_delta_row(&self) -> DeltaRow<'_> {
        let state = self.state.as_ref().map(|(state, schema)| (state.as_slice(), *schema));
        DeltaRow { key: &self.key, state, timeout: self.timeout }
    }
}

pub(super) fn get(connection: &Connection, group: KeyGroup, key: &[u8]) -> Result<Option<KeyRow>> {
    let what = || format!("the row of the key '{}'", String::from_utf8_lossy(key));
    let read = || {
        let mut statement = connection.prepare_cached(
            "SELECT key, state, schema, timeout_clock, timeout_ms, checksum FROM state WHERE key_group = ?1 AND key = ?2",
        )?;
        statement.query_row(params![group.0, key], read_row).optional()
    };
    let row = read().map_err(|error| explained(connection, what(), error))?;
    row.map(|row| row.checked(connection)).transpose()
}

/// Calls `each` with every row of a key group, in the order of keys.
pub(super) fn scan(connection: &Connection, group: KeyGroup, mut each: impl FnMut(KeyRow) -> Result<()>) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT key, state, schema, timeout_clock, timeout_ms, checksum FROM state WHERE key_group = ?1 ORDER BY key",
    )?;
    let rows = statement.query_map(params![group.0], read_row)?;
    for row in rows {
        let row = row.map_err(|error| explained(connection, format!("a row of key group {}", group.0), error))?;
        each(row.checked(connection)?)?;
    }
    Ok(())
}

/// How many rows there are of each kind.
pub(super) fn counts(connection: &Connection) -> Result<RowCounts> {
    let mut counts = RowCounts::default();
    let mut statement = connection.prepare("SELECT schema FROM state")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        counts.add(Mark::of(row.get(0)?));
    }
    Ok(counts)
}

pub(super) fn put(connection: &Connection, group: KeyGroup, row: DeltaRow<'_>) -> Result<()> {
    if row.state.is_none() && row.timeout.is_none() {
        let mut statement = connection.prepare_cached("DELETE FROM state WHERE key_group = ?1 AND key = ?2")?;
        statement.execute(params![group.0, row.key])?;
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO state (key_group, key, state, schema, timeout_clock, timeout_ms, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    statement.execute(params![
        group.0,
        row.key,
        row.state.map(|(state, _)| state),
        row.state.map(|(_, schema)| schema),
        row.timeout.map(|timeout| timeout.clock as u8),
        row.timeout.map(|timeout| timeout.at.0),
        checksum(row),
    ])?;
    Ok(())
}

/// Calls `each` with the keys whose timeout lies in `[from, to)`, by due time, until it returns false. This reads the index, which
/// has no checksum: whoever calls a key for its timeout reads its row, and sees there whether it is due.
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

/// A row as the table has it, and the checksum that it was written with.
struct StoredRow {
    row: KeyRow,
    checksum: i32,
}

impl StoredRow {
    fn checked(self, connection: &Connection) -> Result<KeyRow> {
        if checksum(self.row.as_delta_row()) == self.checksum {
            return Ok(self.row);
        }
        let what = format!("the row of the key '{}'", String::from_utf8_lossy(&self.row.key));
        Err(damaged(connection, what, "its checksum is wrong"))
    }
}

/// Four bytes: one damaged row in four billion goes unseen, and a row gets no longer than it must.
fn checksum(row: DeltaRow<'_>) -> i32 {
    let (state, form) = row.state.map_or((&[][..], 0), |(state, schema)| (state, 1 | u64::from(schema) << 1));
    let mut timeout = [0; 9];
    if let Some(Timeout { clock, at }) = row.timeout {
        timeout[0] = clock as u8;
        timeout[1..].copy_from_slice(&at.0.to_le_bytes());
    }
    let sum = xxh3_64_with_seed(state, xxh3_64(row.key) ^ form);
    xxh3_64_with_seed(&timeout, sum) as i32
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredRow> {
    let state: Option<Vec<u8>> = row.get(1)?;
    let schema: Option<u32> = row.get(2)?;
    let clock: Option<u8> = row.get(3)?;
    let at: Option<i64> = row.get(4)?;
    let row_checksum = row.get(5)?;
    let timeout = clock.and_then(TimeoutClock::from_number).zip(at);
    let row = KeyRow {
        key: row.get(0)?,
        state: state.zip(schema),
        timeout: timeout.map(|(clock, at)| Timeout { clock, at: Millis(at) }),
    };
    Ok(StoredRow { row, checksum: row_checksum })
}
