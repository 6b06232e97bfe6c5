//! Folders and files that are to go: noted with the change that deletes what they belong to, so that a crash before they are
//! gone leaves nothing behind.

use super::Change;
use anyhow::Result;

pub(super) const SCHEMA: &str = "
    -- Paths relative to the data folder. Only what is named here is ever deleted: a folder that the catalogue does not know, as after
    -- an older copy of it was put back, stays.
    CREATE TABLE removal (path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
";

impl Change<'_> {
    /// What is to go.
    pub fn removals(&self) -> Result<Vec<String>> {
        let mut statement = self.transaction.prepare_cached("SELECT path FROM removal")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Notes that this is to go.
    pub fn add_removal(&self, path: &str) -> Result<()> {
        self.transaction.prepare_cached("INSERT OR IGNORE INTO removal (path) VALUES (?1)")?.execute([path])?;
        Ok(())
    }

    /// It has gone, or is wanted again.
    pub fn end_removal(&self, path: &str) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM removal WHERE path = ?1")?.execute([path])?;
        Ok(())
    }
}
