//! The audit: who changed what, each line hashed together with the one before, so that none can be changed or taken out unseen.

use super::{Change, TenantId};
use crate::event::Millis;
use anyhow::{Context, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(super) const SCHEMA: &str = "
    -- The hash is SHA-256 over the hash of the line before (32 zero bytes before the first) and the bytes of the line. The tenant is in the
    -- line as well; here it is for finding a tenant's lines.
    CREATE TABLE audit (
        seq INTEGER PRIMARY KEY,
        tenant TEXT,
        line TEXT NOT NULL,
        hash BLOB NOT NULL CHECK (length(hash) = 32)
    ) STRICT;
    CREATE INDEX audit_tenant ON audit (tenant, seq) WHERE tenant IS NOT NULL;
";

/// What comes before the first line.
pub(super) const NO_HASH: [u8; 32] = [0; 32];

/// What is written of a change, or of an attempt that was refused.
#[derive(Debug, Clone, PartialEq)]
pub struct NewLine {
    /// When.
    pub time: Millis,
    /// Whose things it concerns: the id and, as names can be given again, the name.
    pub tenant: Option<(TenantId, String)>,
    /// The name of the token; `keyfold` when the host did it by itself.
    pub by: String,
    /// The role of the token.
    pub role: Option<String>,
    /// What was done, such as `rule.activate`.
    pub action: String,
    /// To what.
    pub target: String,
    /// The digest of the component, when one was concerned.
    pub digest: Option<String>,
    /// More.
    pub details: Value,
    /// `done`, or the code of the error.
    pub outcome: String,
    /// The request.
    pub request_id: Option<String>,
}

/// A line as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditLine {
    /// Its number, from 1.
    pub seq: u64,
    /// When.
    pub time: String,
    /// The tenant's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The tenant's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// Who.
    pub by: String,
    /// The role of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// What was done.
    pub action: String,
    /// To what.
    pub target: String,
    /// The digest of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// More.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// `done`, or the code of the error.
    pub outcome: String,
    /// The request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The end of the chain: the number of a line, and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub seq: u64,
    pub hash: [u8; 32],
}

impl Link {
    /// Before the first line.
    pub(super) const NONE: Link = Link { seq: 0, hash: NO_HASH };

    /// The link of the line after this one.
    pub(super) fn next(self, line: &[u8]) -> Link {
        let mut hasher = Sha256::new();
        hasher.update(self.hash);
        hasher.update(line);
        Link { seq: self.seq + 1, hash: hasher.finalize().into() }
    }
}

/// The last line; [`Link::NONE`] when there is none.
pub(super) fn last(connection: &Connection) -> Result<Link> {
    let mut statement = connection.prepare_cached("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")?;
    let found = statement.query_row([], |row| Ok(Link { seq: row.get(0)?, hash: row.get(1)? })).optional()?;
    Ok(found.unwrap_or(Link::NONE))
}

/// Appends lines. Returns the new end of the chain; None when there was nothing to append.
pub(super) fn append(connection: &Connection, lines: &[NewLine]) -> Result<Option<Link>> {
    if lines.is_empty() {
        return Ok(None);
    }
    let mut end = last(connection)?;
    let mut statement =
        connection.prepare_cached("INSERT INTO audit (seq, tenant, line, hash) VALUES (?1, ?2, ?3, ?4)")?;
    for new in lines {
        let line = kept(new, end.seq + 1);
        let text = serde_json::to_string(&line)?;
        end = end.next(text.as_bytes());
        statement.execute(params![end.seq, line.tenant_id.as_ref().map(TenantId::as_str), text, end.hash])?;
    }
    Ok(Some(end))
}

/// A row as it lies there: its number, its tenant, the bytes of its line, its hash.
pub(super) struct RawRow {
    pub seq: u64,
    pub tenant: Option<String>,
    pub line: Vec<u8>,
    pub hash: Vec<u8>,
}

/// Calls `each` with every row in order, until it says that this is enough.
pub(super) fn scan(connection: &Connection, mut each: impl FnMut(RawRow) -> Result<bool>) -> Result<()> {
    let mut statement = connection.prepare("SELECT seq, tenant, line, hash FROM audit ORDER BY seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let tenant = row.get_ref(1)?.as_bytes_or_null()?.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let (line, hash) = (row.get_ref(2)?.as_bytes()?.to_vec(), row.get_ref(3)?.as_bytes()?.to_vec());
        if !each(RawRow { seq: row.get(0)?, tenant, line, hash })? {
            break;
        }
    }
    Ok(())
}

impl Change<'_> {
    /// Lines after this number, of one tenant or of all, with their hashes in hexadecimal.
    pub fn audit(&self, tenant: Option<&TenantId>, after: u64, limit: usize) -> Result<Vec<(AuditLine, String)>> {
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, [u8; 32]>(1)?));
        let rows: Vec<(String, [u8; 32])> = match tenant {
            None => {
                let sql = "SELECT line, hash FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2";
                self.transaction
                    .prepare_cached(sql)?
                    .query_map(params![after, limit], read)?
                    .collect::<rusqlite::Result<_>>()?
            }
            Some(tenant) => {
                let sql = "SELECT line, hash FROM audit WHERE tenant = ?3 AND seq > ?1 ORDER BY seq LIMIT ?2";
                self.transaction
                    .prepare_cached(sql)?
                    .query_map(params![after, limit, tenant.as_str()], read)?
                    .collect::<rusqlite::Result<_>>()?
            }
        };
        let lines = rows.into_iter().map(|(line, hash)| {
            let line = serde_json::from_str(&line).context("a line of the audit cannot be read: verify the audit")?;
            Ok((line, hex(&hash)))
        });
        lines.collect()
    }

    /// The number of the last line; 0 when there is none.
    pub fn audit_end(&self) -> Result<u64> {
        Ok(last(&self.transaction)?.seq)
    }
}

/// In hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn kept(new: &NewLine, seq: u64) -> AuditLine {
    let (tenant_id, tenant) = new.tenant.clone().unzip();
    AuditLine {
        seq,
        time: new.time.to_string(),
        tenant,
        tenant_id,
        by: new.by.clone(),
        role: new.role.clone(),
        action: new.action.clone(),
        target: new.target.clone(),
        digest: new.digest.clone(),
        details: new.details.clone(),
        outcome: new.outcome.clone(),
        request_id: new.request_id.clone(),
    }
}
