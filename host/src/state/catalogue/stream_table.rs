//! Streams.

use super::{Change, StreamId, TenantId};
use crate::event::Millis;
use anyhow::Result;
use rusqlite::params;

pub(super) const SCHEMA: &str = "
    -- Settings are JSON, as they were asked for.
    CREATE TABLE stream (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        created INTEGER NOT NULL,
        settings TEXT NOT NULL,
        UNIQUE (tenant, name)
    ) STRICT, WITHOUT ROWID;
";

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRow {
    /// Its id.
    pub id: StreamId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Millis,
    /// Its settings, as JSON.
    pub settings: String,
}

impl Change<'_> {
    /// All streams.
    pub fn streams(&self) -> Result<Vec<StreamRow>> {
        let mut statement =
            self.transaction.prepare_cached("SELECT id, tenant, name, created, settings FROM stream")?;
        let rows = statement.query_map([], |row| {
            Ok(StreamRow {
                id: StreamId::from_text(row.get(0)?),
                tenant: TenantId::from_text(row.get(1)?),
                name: row.get(2)?,
                created: Millis(row.get(3)?),
                settings: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many streams a tenant has.
    pub fn count_streams(&self, tenant: &TenantId) -> Result<u64> {
        let mut statement = self.transaction.prepare_cached("SELECT COUNT(*) FROM stream WHERE tenant = ?1")?;
        Ok(statement.query_row([tenant.as_str()], |row| row.get(0))?)
    }

    /// Adds a stream.
    pub fn add_stream(&self, stream: &StreamRow) -> Result<()> {
        let mut statement = self
            .transaction
            .prepare_cached("INSERT INTO stream (id, tenant, name, created, settings) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        let StreamRow { id, tenant, name, created, settings } = stream;
        statement.execute(params![id.as_str(), tenant.as_str(), name, created.0, settings])?;
        Ok(())
    }

    /// Changes a stream's settings.
    pub fn set_stream_settings(&self, stream: &StreamId, settings: &str) -> Result<()> {
        let mut statement = self.transaction.prepare_cached("UPDATE stream SET settings = ?2 WHERE id = ?1")?;
        statement.execute(params![stream.as_str(), settings])?;
        Ok(())
    }

    /// Deletes the row of a stream.
    pub fn delete_stream(&self, stream: &StreamId) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM stream WHERE id = ?1")?.execute([stream.as_str()])?;
        Ok(())
    }
}
