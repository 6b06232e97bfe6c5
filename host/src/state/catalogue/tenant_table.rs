//! Tenants.

use super::{Change, TenantId};
use crate::event::Millis;
use anyhow::Result;
use rusqlite::{OptionalExtension, params};

pub(super) const SCHEMA: &str = "
    -- Quotas are JSON: only what was set for this tenant, so that a new default holds for all others.
    CREATE TABLE tenant (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        created INTEGER NOT NULL,
        quotas TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// A tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRow {
    /// Its id.
    pub id: TenantId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Millis,
    /// What was set of its quotas, as JSON.
    pub quotas: String,
}

impl Change<'_> {
    /// All tenants.
    pub fn tenants(&self) -> Result<Vec<TenantRow>> {
        let mut statement = self.transaction.prepare_cached("SELECT id, name, created, quotas FROM tenant")?;
        let rows = statement.query_map([], |row| {
            Ok(TenantRow {
                id: TenantId::from_text(row.get(0)?),
                name: row.get(1)?,
                created: Millis(row.get(2)?),
                quotas: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Whether there is a tenant of this name.
    pub fn has_tenant(&self, name: &str) -> Result<bool> {
        let mut statement = self.transaction.prepare_cached("SELECT 1 FROM tenant WHERE name = ?1")?;
        Ok(statement.query_row([name], |_| Ok(())).optional()?.is_some())
    }

    /// Adds a tenant.
    pub fn add_tenant(&self, tenant: &TenantRow) -> Result<()> {
        let mut statement = self
            .transaction
            .prepare_cached("INSERT INTO tenant (id, name, created, quotas) VALUES (?1, ?2, ?3, ?4)")?;
        statement.execute(params![tenant.id.as_str(), tenant.name, tenant.created.0, tenant.quotas])?;
        Ok(())
    }

    /// Changes a tenant's quotas.
    pub fn set_quotas(&self, tenant: &TenantId, quotas: &str) -> Result<()> {
        let mut statement = self.transaction.prepare_cached("UPDATE tenant SET quotas = ?2 WHERE id = ?1")?;
        statement.execute(params![tenant.as_str(), quotas])?;
        Ok(())
    }

    /// Deletes the row of a tenant.
    pub fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM tenant WHERE id = ?1")?.execute([tenant.as_str()])?;
        Ok(())
    }
}
