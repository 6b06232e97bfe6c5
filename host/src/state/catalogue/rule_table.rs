//! Rules.

use super::{Change, RuleId, TenantId};
use crate::event::Millis;
use anyhow::Result;
use rusqlite::{Row, params};

pub(super) const SCHEMA: &str = "
    -- What is JSON is written and read as a whole. What a rule did lies in its own folder; here is what must be known without opening
    -- that.
    CREATE TABLE rule (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        created INTEGER NOT NULL,
        manifest TEXT NOT NULL,
        -- Where each input begins, for a folder without batches.
        starts TEXT NOT NULL,
        -- Who paused it and when.
        paused TEXT,
        -- Why it is quarantined, and since when.
        quarantined TEXT,
        -- What it knew when it was closed in order: positions, due times, counts. NULL from before it is opened.
        parked TEXT,
        -- Where its inputs end and until when, when it is deleted and finishes what it has.
        draining TEXT,
        UNIQUE (tenant, name)
    ) STRICT, WITHOUT ROWID;
";

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRow {
    /// Its id.
    pub id: RuleId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Millis,
    /// Its manifest, as JSON.
    pub manifest: String,
    /// Where each input begins, as JSON.
    pub starts: String,
    /// Who paused it and when, as JSON.
    pub paused: Option<String>,
    /// Why it is quarantined and since when, as JSON.
    pub quarantined: Option<String>,
    /// What it knew when it was closed in order, as JSON.
    pub parked: Option<String>,
    /// Where its inputs end and until when, as JSON, when it is being deleted.
    pub draining: Option<String>,
}

impl Change<'_> {
    /// All rules.
    pub fn rules(&self) -> Result<Vec<RuleRow>> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT id, tenant, name, created, manifest, starts, paused, quarantined, parked, draining FROM rule",
        )?;
        let rows = statement.query_map([], of_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many rules a tenant has.
    pub fn count_rules(&self, tenant: &TenantId) -> Result<u64> {
        let mut statement = self.transaction.prepare_cached("SELECT COUNT(*) FROM rule WHERE tenant = ?1")?;
        Ok(statement.query_row([tenant.as_str()], |row| row.get(0))?)
    }

    /// Adds a rule.
    pub fn add_rule(&self, rule: &RuleRow) -> Result<()> {
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO rule (id, tenant, name, created, manifest, starts, paused, quarantined, parked, draining)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        statement.execute(params![
            rule.id.as_str(),
            rule.tenant.as_str(),
            rule.name,
            rule.created.0,
            rule.manifest,
            rule.starts,
            rule.paused,
            rule.quarantined,
            rule.parked,
            rule.draining,
        ])?;
        Ok(())
    }

    /// Changes a rule's manifest.
    pub fn set_manifest(&self, rule: &RuleId, manifest: &str, starts: &str) -> Result<()> {
        let mut statement =
            self.transaction.prepare_cached("UPDATE rule SET manifest = ?2, starts = ?3 WHERE id = ?1")?;
        statement.execute(params![rule.as_str(), manifest, starts])?;
        Ok(())
    }

    /// Notes who paused a rule; None: it goes on.
    pub fn set_paused(&self, rule: &RuleId, paused: Option<&str>) -> Result<()> {
        self.set_member("UPDATE rule SET paused = ?2 WHERE id = ?1", rule, paused)
    }

    /// Notes why a rule is quarantined; None: it goes on.
    pub fn set_quarantined(&self, rule: &RuleId, quarantined: Option<&str>) -> Result<()> {
        self.set_member("UPDATE rule SET quarantined = ?2 WHERE id = ?1", rule, quarantined)
    }

    /// Notes what a rule knew when it was closed in order; None: it is about to be opened.
    pub fn set_parked(&self, rule: &RuleId, parked: Option<&str>) -> Result<()> {
        self.set_member("UPDATE rule SET parked = ?2 WHERE id = ?1", rule, parked)
    }

    /// Notes that a rule finishes what it has, and is then deleted.
    pub fn set_draining(&self, rule: &RuleId, draining: &str) -> Result<()> {
        self.set_member("UPDATE rule SET draining = ?2 WHERE id = ?1", rule, Some(draining))
    }

    /// Deletes the row of a rule.
    pub fn delete_rule(&self, rule: &RuleId) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM rule WHERE id = ?1")?.execute([rule.as_str()])?;
        Ok(())
    }

    fn set_member(&self, sql: &str, rule: &RuleId, value: Option<&str>) -> Result<()> {
        self.transaction.prepare_cached(sql)?.execute(params![rule.as_str(), value])?;
        Ok(())
    }
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<RuleRow> {
    Ok(RuleRow {
        id: RuleId::from_text(row.get(0)?),
        tenant: TenantId::from_text(row.get(1)?),
        name: row.get(2)?,
        created: Millis(row.get(3)?),
        manifest: row.get(4)?,
        starts: row.get(5)?,
        paused: row.get(6)?,
        quarantined: row.get(7)?,
        parked: row.get(8)?,
        draining: row.get(9)?,
    })
}
