//! Single values of a file, by name.

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension};

pub(super) const SCHEMA: &str = "
    -- Single values: which partition this is, what was committed last.
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
";

pub(super) fn get<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?)
}

pub(super) fn set(connection: &Connection, name: &str, value: impl rusqlite::ToSql) -> Result<()> {
    let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?;
    statement.execute(rusqlite::params![name, value])?;
    Ok(())
}
