//! Tokens: hashes of their secrets, never the secrets.

use super::{Change, TenantId, TokenId};
use crate::event::Millis;
use anyhow::{Context, Result};
use rusqlite::{OptionalExtension, Row, params};

pub(super) const SCHEMA: &str = "
    -- A secret has 256 random bits, so its plain SHA-256 cannot be guessed back. The tenant is '' for the platform's tokens, so
    -- that names are unique there, too: NULLs would all differ.
    CREATE TABLE token (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
        -- The secret before, while it still holds after a rotation.
        old_hash BLOB CHECK (length(old_hash) = 32),
        old_until INTEGER,
        created INTEGER NOT NULL,
        expires INTEGER,
        UNIQUE (tenant, name)
    ) STRICT, WITHOUT ROWID;
";

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Its id: stays when its secret changes.
    pub id: TokenId,
    /// Whose it is; None for the platform's.
    pub tenant: Option<TenantId>,
    /// Its name.
    pub name: String,
    /// Its role, as it is written.
    pub role: String,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// SHA-256 of the secret before, and until when it holds.
    pub old: Option<([u8; 32], Millis)>,
    /// When it was made.
    pub created: Millis,
    /// When it ends.
    pub expires: Option<Millis>,
}

const COLUMNS: &str = "id, tenant, name, role, hash, old_hash, old_until, created, expires";

impl Change<'_> {
    /// All tokens.
    pub fn tokens(&self) -> Result<Vec<TokenRow>> {
        let mut statement = self.transaction.prepare_cached(&format!("SELECT {COLUMNS} FROM token"))?;
        let rows = statement.query_map([], of_row)?;
        rows.collect::<rusqlite::Result<_>>().context("failed to read the tokens")
    }

    /// A token by its name.
    pub fn token(&self, tenant: Option<&TenantId>, name: &str) -> Result<Option<TokenRow>> {
        let sql = format!("SELECT {COLUMNS} FROM token WHERE tenant = ?1 AND name = ?2");
        let mut statement = self.transaction.prepare_cached(&sql)?;
        Ok(statement.query_row(params![text_of(tenant), name], of_row).optional()?)
    }

    /// Adds a token, or puts it in the place of the one with its id.
    pub fn put_token(&self, token: &TokenRow) -> Result<()> {
        let mut statement = self.transaction.prepare_cached(&format!(
            "INSERT OR REPLACE INTO token ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
        ))?;
        let (old_hash, old_until) = token.old.map_or((None, None), |(hash, until)| (Some(hash), Some(until.0)));
        statement.execute(params![
            token.id.as_str(),
            text_of(token.tenant.as_ref()),
            token.name,
            token.role,
            token.hash,
            old_hash,
            old_until,
            token.created.0,
            token.expires.map(|expires| expires.0),
        ])?;
        Ok(())
    }

    /// Deletes a token.
    pub fn delete_token(&self, token: &TokenId) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM token WHERE id = ?1")?.execute([token.as_str()])?;
        Ok(())
    }

    /// Deletes all tokens of a tenant.
    pub fn delete_tokens_of(&self, tenant: &TenantId) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM token WHERE tenant = ?1")?.execute([tenant.as_str()])?;
        Ok(())
    }
}

fn text_of(tenant: Option<&TenantId>) -> &str {
    tenant.map_or("", TenantId::as_str)
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    let tenant: String = row.get(1)?;
    let old_hash: Option<[u8; 32]> = row.get(5)?;
    let old_until: Option<i64> = row.get(6)?;
    Ok(TokenRow {
        id: TokenId::from_text(row.get(0)?),
        tenant: (!tenant.is_empty()).then(|| TenantId::from_text(tenant)),
        name: row.get(2)?,
        role: row.get(3)?,
        hash: row.get(4)?,
        old: old_hash.zip(old_until.map(Millis)),
        created: Millis(row.get(7)?),
        expires: row.get::<_, Option<i64>>(8)?.map(Millis),
    })
}
