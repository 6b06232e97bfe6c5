//! How every SQLite file of the host is opened.

use super::{clean, damage, hold};
use crate::fault;
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// `KEYF`: marks the files as ours for `file` and for a host that is pointed at the wrong file.
const APPLICATION_ID: i32 = 0x4b45_5946;
/// The version of all tables. A host refuses files of another version. No release wrote those before 3.
const FORMAT_VERSION: i32 = 3;
/// Earlier versions of SQLite could corrupt a file in WAL mode (the WAL-reset bug).
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// 16 MiB of WAL before a checkpoint: the knee between throughput and stalls.
const WAL_PAGES: i32 = 4000;
/// Cache of each connection, in KiB.
const CACHE_KIB: i32 = 32 * 1024;
/// A reader waits this long for the moment in which a writer restarts the WAL.
const BUSY: Duration = Duration::from_secs(5);

/// Opens a file for its owner, who alone writes it, and makes its tables when it is new.
pub(super) fn open(path: &Path, schema: &[&str]) -> Result<Connection> {
    try_open(path, schema).map_err(|error| hold::ended_by_sync(path, error))
}

fn try_open(path: &Path, schema: &[&str]) -> Result<Connection> {
    let version = rusqlite::version_number();
    assert!(
        version >= SQLITE_VERSION_MIN,
        "SQLite {version} is older than {SQLITE_VERSION_MIN}, which corrupts WAL files"
    );
    let attempt = || format!("failed to open {}", path.display());
    let connection = Connection::open(path).with_context(attempt)?;
    connection.busy_timeout(BUSY)?;
    turn_on_wal(&connection).map_err(|error| match error.downcast() {
        Ok(error) => damage::explained(&connection, attempt(), error),
        Err(error) => error.context(attempt()),
    })?;
    // FULL: a commit that was reported is on the disk. mmap stays off, because it turns read errors into signals.
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = FULL;
             PRAGMA mmap_size = 0;
             PRAGMA cache_size = -{CACHE_KIB};
             PRAGMA temp_store = MEMORY;
             PRAGMA trusted_schema = OFF;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 67108864;"
        ))
        .map_err(|error| damage::explained(&connection, attempt(), error))?;
    connection.set_prepared_statement_cache_capacity(64);
    match identity(&connection).map_err(|error| damage::explained(&connection, attempt(), error))? {
        (0, 0) => {
            fault::point("tables-begin");
            create(&connection, schema).with_context(attempt)?;
        }
        found => {
            check_identity(found, path)?;
            clean::check(&connection)?;
        }
    }
    Ok(connection)
}

/// Makes a file that is synced as a whole, when it is done: until then nothing is, and there is no log.
pub(super) fn create_unsynced(path: &Path, schema: &[&str]) -> Result<Connection> {
    ensure!(!path.exists(), "{} is there already", path.display());
    let attempt = || format!("failed to make {}", path.display());
    let connection = Connection::open(path).with_context(attempt)?;
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = OFF;
             PRAGMA synchronous = OFF;
             PRAGMA locking_mode = EXCLUSIVE;
             PRAGMA cache_size = -{CACHE_KIB};
             PRAGMA temp_store = MEMORY;"
        ))
        .with_context(attempt)?;
    create(&connection, schema).with_context(attempt)?;
    Ok(connection)
}

/// Deletes the indexes of a table, and returns what makes them again.
pub(super) fn take_indexes(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let mut statement = connection
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL")?;
    let indexes = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let indexes = indexes.collect::<rusqlite::Result<Vec<(String, String)>>>()?;
    for (name, _) in &indexes {
        connection.execute_batch(&format!("DROP INDEX {name}"))?;
    }
    Ok(indexes.into_iter().map(|(_, sql)| sql).collect())
}

/// Closes a file of [`create_unsynced`] and syncs it.
pub(super) fn end_unsynced(connection: Connection, path: &Path) -> Result<()> {
    let end = || -> Result<()> {
        // As all files are: whoever opens it first need not change that.
        connection.execute_batch("PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = WAL;")?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(std::fs::File::open(path)?.sync_all()?)
    };
    end().with_context(|| format!("failed to sync {}", path.display()))
}

fn turn_on_wal(connection: &Connection) -> Result<()> {
    let mut statement = connection.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = statement.query([])?;
    let mode: Option<String> = rows.next()?.map(|row| row.get(0)).transpose()?;
    // Only the end of the statement tells that a write or a sync has failed; the row before it says `wal` all the same.
    while rows.next()?.is_some() {}
    ensure!(mode.as_deref() == Some("wal"), "it could not be put into WAL mode: look after the disk, then start again");
    Ok(())
}

/// Whether commits wait until they are on the disk. Without, a crash of the machine may take back the last ones, and leaves
/// the file whole.
pub(super) fn set_synced(connection: &Connection, synced: bool) -> Result<()> {
    Ok(connection.pragma_update(None, "synchronous", if synced { "FULL" } else { "NORMAL" })?)
}

/// Copies the log to the file when it has become long. SQLite would do that by itself after a commit, but tell nobody when a
/// sync fails then.
pub(super) fn checkpoint_when_long(connection: &Connection, path: &Path) -> Result<()> {
    let pages: i32 = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))?;
    if pages < WAL_PAGES {
        return Ok(());
    }
    fault::point("wal-checkpoint-begin");
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    if let Err(error) = copied {
        // Everything is in the log. Without space for it in the file, the log just becomes longer, until a commit waits.
        let error = hold::ended_by_sync(path, error.into());
        tracing::warn!("{}: the log was not copied to the file: {error:#}", path.display());
    }
    fault::point("wal-checkpoint-end");
    Ok(())
}

/// Opens a file to read it, also while its owner writes. None when its tables were never made: a crash came before.
pub(super) fn open_read_only(path: &Path) -> Result<Option<Connection>> {
    ensure!(path.exists(), "there is no {}: is this the data folder of a rule?", path.display());
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .with_context(|| format!("failed to open {}", path.display()))?;
    connection.busy_timeout(BUSY)?;
    match identity(&connection) {
        Ok((0, 0)) => Ok(None),
        Ok(found) => check_identity(found, path).map(|()| Some(connection)),
        Err(error) if has_unfinished_journal(&error) => Ok(None),
        Err(error) => Err(damage::explained(&connection, format!("failed to read {}", path.display()), error)),
    }
}

/// Whether a file waits for its owner to undo what a crash cut short. It has a rollback journal only until it is in WAL
/// mode, which is before its tables are made.
fn has_unfinished_journal(error: &rusqlite::Error) -> bool {
    let failure = error.sqlite_error();
    failure.is_some_and(|failure| failure.extended_code == rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}

fn identity(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    let application_id = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let format_version = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok((application_id, format_version))
}

fn check_identity((application_id, format_version): (i32, i32), path: &Path) -> Result<()> {
    ensure!(application_id == APPLICATION_ID, "{} is not a file of Keyfold's", path.display());
    ensure!(
        format_version == FORMAT_VERSION,
        "{} has format version {format_version}, this host knows {FORMAT_VERSION}: use the host that wrote it",
        path.display()
    );
    Ok(())
}

fn create(connection: &Connection, schema: &[&str]) -> Result<()> {
    // One transaction, so that a crash leaves either no tables or all of them with their mark.
    let marks = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};");
    connection.execute_batch(&format!("BEGIN IMMEDIATE; {} {marks} COMMIT;", schema.join("\n")))?;
    Ok(())
}
