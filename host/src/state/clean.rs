//! The clean mark: says that a file was closed in order. One without it is checked before it is used.
//!
//! A crash of the process, or of a machine whose disk keeps its word, leaves the file whole. The check is for the others: a disk
//! that lost a write, a copy that was made while the file was written. It reads the whole file, some 0.6 s for a million keys
//! with 256 bytes of state, and so is not made after an orderly stop. It does not see a changed byte within a state; the
//! checksum of the row does, when the row is read.

use super::{damage, hold, meta_table, settings};
use anyhow::Result;
use rusqlite::Connection;
use std::path::Path;

const META_CLEAN: &str = "clean";
/// So many faults are named; the first one says enough.
const FAULTS_MAX: u32 = 3;

/// Checks the structure of a file that was not closed in order.
pub(super) fn check(connection: &Connection) -> Result<()> {
    let explained = |error| damage::explained(connection, "it was not closed in order, and the check fails", error);
    if is_set(connection).map_err(explained)? {
        return Ok(());
    }
    let faults: Vec<String> = connection
        .prepare(&format!("PRAGMA quick_check({FAULTS_MAX})"))
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(explained)?;
    if faults == ["ok"] {
        return Ok(());
    }
    Err(damage::damaged(connection, "it was not closed in order, and the check fails", faults.join(", ")))
}

/// Takes the mark away, in the transaction of the first change: so it costs no sync of its own.
pub(super) fn clear(connection: &Connection) -> Result<()> {
    connection.prepare_cached("DELETE FROM meta WHERE name = ?1")?.execute([META_CLEAN])?;
    Ok(())
}

/// Marks a file that is about to be closed, if it has no mark. Closing moves the log into the file, which syncs both.
pub(super) fn set(connection: &Connection) -> Result<()> {
    if is_set(connection)? {
        return Ok(());
    }
    settings::set_synced(connection, false)?;
    meta_table::set(connection, META_CLEAN, 1)
}

/// Marks a file that its owner is about to close, and copies the log to it. SQLite would copy it by itself, and tell nobody when a sync
/// fails.
pub(super) fn close(connection: &Connection, path: &Path) {
    let copy = || connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    if let Err(error) = set(connection).and_then(|()| Ok(copy()?)) {
        // Without the mark the file is checked when it is opened again, and nothing is lost.
        let error = hold::ended_by_sync(path, error);
        tracing::warn!("{}: it was not closed in order: {error:#}", path.display());
    }
}

/// Whether the last one that changed the file closed it in order.
fn is_set(connection: &Connection) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM meta WHERE name = ?1")?;
    statement.exists([META_CLEAN])
}
