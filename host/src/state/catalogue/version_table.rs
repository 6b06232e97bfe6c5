//! Versions of rules: which components were uploaded, and what their checks said.

use super::{Change, RuleId, TenantId};
use crate::event::Millis;
use anyhow::Result;
use rusqlite::{OptionalExtension, Row, params};

pub(super) const SCHEMA: &str = "
    -- The bytes lie in the tenant's folder under their digest; several rules may have the same.
    CREATE TABLE version (
        rule TEXT NOT NULL,
        digest TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        uploaded INTEGER NOT NULL,
        uploaded_by TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('checking', 'ready', 'refused')),
        reason TEXT,
        -- What the component says of itself, as JSON; NULL until it was asked, or when it cannot say.
        description TEXT,
        -- What the checks found, as JSON.
        report TEXT,
        PRIMARY KEY (rule, digest)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX version_digest ON version (digest);
";

/// How far the checks of a version are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    /// They wait or run.
    Checking,
    /// It may be activated.
    Ready,
    /// It may not.
    Refused,
}

/// A version of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRow {
    /// The rule.
    pub rule: RuleId,
    /// `sha256:` and the hash of the component.
    pub digest: String,
    /// Its bytes.
    pub bytes: u64,
    /// When it was uploaded.
    pub uploaded: Millis,
    /// The name of the token that uploaded it.
    pub uploaded_by: String,
    /// How far its checks are.
    pub status: CheckStatus,
    /// Why it was refused.
    pub reason: Option<String>,
    /// What it says of itself, as JSON.
    pub description: Option<String>,
    /// What the checks found, as JSON.
    pub report: Option<String>,
}

const COLUMNS: &str = "rule, digest, bytes, uploaded, uploaded_by, status, reason, description, report";

impl Change<'_> {
    /// All versions whose checks have not ended, oldest first.
    pub fn unchecked_versions(&self) -> Result<Vec<VersionRow>> {
        let sql = format!("SELECT {COLUMNS} FROM version WHERE status = 'checking' ORDER BY uploaded, rule, digest");
        let mut statement = self.transaction.prepare_cached(&sql)?;
        let rows = statement.query_map([], of_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The versions of a rule, newest first.
    pub fn versions(&self, rule: &RuleId) -> Result<Vec<VersionRow>> {
        let sql = format!("SELECT {COLUMNS} FROM version WHERE rule = ?1 ORDER BY uploaded DESC, digest");
        let mut statement = self.transaction.prepare_cached(&sql)?;
        let rows = statement.query_map([rule.as_str()], of_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// A version by its whole digest.
    pub fn version(&self, rule: &RuleId, digest: &str) -> Result<Option<VersionRow>> {
        let sql = format!("SELECT {COLUMNS} FROM version WHERE rule = ?1 AND digest = ?2");
        let mut statement = self.transaction.prepare_cached(&sql)?;
        Ok(statement.query_row(params![rule.as_str(), digest], of_row).optional()?)
    }

    /// Adds a version, or puts it in the place of the one with its digest.
    pub fn put_version(&self, version: &VersionRow) -> Result<()> {
        let mut statement = self.transaction.prepare_cached(&format!(
            "INSERT OR REPLACE INTO version ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
        ))?;
        let status = match version.status {
            CheckStatus::Checking => "checking",
            CheckStatus::Ready => "ready",
            CheckStatus::Refused => "refused",
        };
        statement.execute(params![
            version.rule.as_str(),
            version.digest,
            version.bytes,
            version.uploaded.0,
            version.uploaded_by,
            status,
            version.reason,
            version.description,
            version.report,
        ])?;
        Ok(())
    }

    /// Deletes the versions of a rule.
    pub fn delete_versions(&self, rule: &RuleId) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM version WHERE rule = ?1")?.execute([rule.as_str()])?;
        Ok(())
    }

    /// The components of a tenant: each digest once, with its bytes.
    pub fn components_of(&self, tenant: &TenantId) -> Result<Vec<(String, u64)>> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT DISTINCT version.digest, version.bytes FROM version JOIN rule ON rule.id = version.rule
             WHERE rule.tenant = ?1 ORDER BY version.digest",
        )?;
        let rows = statement.query_map([tenant.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<VersionRow> {
    Ok(VersionRow {
        rule: RuleId::from_text(row.get(0)?),
        digest: row.get(1)?,
        bytes: row.get(2)?,
        uploaded: Millis(row.get(3)?),
        uploaded_by: row.get(4)?,
        status: status_of(row.get_ref(5)?.as_str()?),
        reason: row.get(6)?,
        description: row.get(7)?,
        report: row.get(8)?,
    })
}

/// The schema lets nothing else be written.
fn status_of(text: &str) -> CheckStatus {
    match text {
        "ready" => CheckStatus::Ready,
        "refused" => CheckStatus::Refused,
        _ => CheckStatus::Checking,
    }
}
