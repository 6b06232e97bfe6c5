//! Tokens: made, shown once, rotated, revoked.

use super::deed::{Deed, word};
use super::model::{NewToken, Role, Rotate, Token, TokenSecret};
use super::registry::TenantEntry;
use super::secrets::new_secret;
use super::{Answer, Caller, Operation, Service, ServiceError};
use crate::config::duration;
use crate::event::Millis;
use crate::state::catalogue::{Change, TenantId, TokenId, TokenRow};
use anyhow::{Context, Result};
use serde_json::json;
use std::time::Duration;

/// The name of the platform token that a new data folder begins with.
const FIRST: &str = "first";
/// Set when the first secret was given out: from then on it is known to somebody.
const FIRST_IS_KNOWN: &str = "first-token-known";
/// Longer than any sensible rotation takes.
const GRACE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

impl Service {
    /// Makes a token: of the caller's tenant, or a platform token by the platform.
    pub fn create_token(&self, caller: &Caller, new: &NewToken) -> Answer<TokenSecret> {
        self.changing(caller, Operation::TOKEN_CREATE, &new.name, |deed| {
            let is_platform = new.role == Role::Platform;
            if is_platform != caller.tenant.is_none() {
                return Err(ServiceError::invalid_field(
                    "role",
                    "a platform token is made by the platform, the others by a tenant",
                ));
            }
            let tenant = caller.tenant.as_ref().map(|_| self.tenant_of(caller)).transpose()?;
            self.make_token(deed, tenant.as_deref(), new)
        })
    }

    /// The tokens of the caller's tenant, or of the platform, in the order of their names.
    pub fn tokens(&self, caller: &Caller) -> Answer<Vec<Token>> {
        self.allow(caller, Operation::TOKEN_LIST, "")?;
        let mut rows = self.catalogue.look(|look| look.tokens())?;
        rows.retain(|row| row.tenant == caller.tenant);
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(rows.iter().map(shown).collect::<Result<_>>()?)
    }

    /// Gives a token a new secret.
    pub fn rotate_token(&self, caller: &Caller, name: &str, rotate: &Rotate) -> Answer<TokenSecret> {
        self.changing(caller, Operation::TOKEN_ROTATE, name, |deed| {
            let grace = rotate.grace.as_ref().map_or(Ok(Duration::ZERO), |text| parsed("grace", text))?;
            if grace > GRACE_MAX {
                return Err(ServiceError::invalid_field(
                    "grace",
                    "grace is longer than 30 days: make a second token instead",
                ));
            }
            let (secret, hash) = new_secret()?;
            let change = |change: &Change<'_>| {
                let mut row = change.token(caller.tenant.as_ref(), name)?.ok_or_else(not_found)?;
                row.old = (!grace.is_zero()).then(|| (row.hash, later(deed.time, grace)));
                row.hash = hash;
                change.put_token(&row)?;
                change.record(deed.line(json!({ "grace_ms": grace.as_millis() as u64 })));
                Ok((role_of(&row)?, row))
            };
            let (_, row) = self.catalogue.change_and(change, |(role, row)| self.secrets.put(row, *role))?;
            Ok(TokenSecret { token: shown(&row)?, secret })
        })
    }

    /// Ends a token, at once.
    pub fn revoke_token(&self, caller: &Caller, name: &str) -> Answer<()> {
        self.changing(caller, Operation::TOKEN_REVOKE, name, |deed| {
            self.catalogue.change(|change| {
                let row = change.token(caller.tenant.as_ref(), name)?.ok_or_else(not_found)?;
                change.delete_token(&row.id)?;
                change.record(deed.line(json!({ "role": row.role })));
                // Before it is on the disk: whoever revokes a token wants it dead even if that fails.
                self.secrets.remove(&row.id);
                Ok(())
            })?;
            Ok(())
        })
    }

    /// Makes a token and shows its secret.
    pub(super) fn make_token(
        &self,
        deed: &Deed<'_>,
        tenant: Option<&TenantEntry>,
        new: &NewToken,
    ) -> Answer<TokenSecret> {
        super::check_name("name", &new.name)?;
        let expires = new.expires_in.as_ref().map(|text| parsed("expires_in", text)).transpose()?;
        let _lock = tenant.map(TenantEntry::lock).transpose()?;
        let (secret, hash) = new_secret()?;
        let row = TokenRow {
            id: TokenId::new(),
            tenant: tenant.map(|tenant| tenant.id.clone()),
            name: new.name.clone(),
            role: word(new.role).to_owned(),
            hash,
            old: None,
            created: deed.time,
            expires: expires.map(|time| later(deed.time, time)),
        };
        let change = |change: &Change<'_>| {
            if change.token(row.tenant.as_ref(), &row.name)?.is_some() {
                let message = format!("there is a token {} already: rotate it, or choose another name", row.name);
                return Err(ServiceError::conflict("token-exists", message).into());
            }
            change.put_token(&row)?;
            change.record(deed.line(json!({ "role": row.role, "expires": row.expires.map(|time| time.to_string()) })));
            Ok(())
        };
        self.catalogue.change_and(change, |()| self.secrets.put(&row, new.role))?;
        Ok(TokenSecret { token: shown(&row)?, secret })
    }

    /// Takes all tokens into memory. While nobody has taken the first secret, it is made anew and returned: the process may have ended
    /// before.
    pub(super) fn load_tokens(&self) -> Result<Option<String>> {
        let (rows, is_known) = self.catalogue.look(|look| Ok((look.tokens()?, look.is_set(FIRST_IS_KNOWN)?)))?;
        for row in &rows {
            self.secrets.put(row, role_of(row)?);
        }
        let of_platform: Vec<&TokenRow> = rows.iter().filter(|row| row.tenant.is_none()).collect();
        let first = match of_platform.as_slice() {
            [] => None,
            [first] if !is_known && first.name == FIRST => Some((*first).clone()),
            _ => return Ok(None),
        };
        let (secret, hash) = new_secret()?;
        let row = TokenRow {
            id: first.map_or_else(TokenId::new, |first| first.id),
            tenant: None,
            name: FIRST.to_owned(),
            role: word(Role::Platform).to_owned(),
            hash,
            old: None,
            created: self.clock.now(),
            expires: None,
        };
        self.catalogue.change(|change| {
            change.put_token(&row)?;
            change.record(self.own_line("token.create", FIRST, json!({ "role": row.role })));
            Ok(())
        })?;
        self.secrets.put(&row, Role::Platform);
        Ok(Some(secret))
    }

    /// The first secret was given out.
    pub(super) fn platform_is_known(&self) -> Result<()> {
        self.catalogue.change(|change| change.set(FIRST_IS_KNOWN))
    }
}

/// Deletes what belongs to a tenant of its tokens, in memory.
pub(super) fn forget(service: &Service, tenant: &TenantId) {
    service.secrets.remove_tenant(tenant);
}

/// A duration that a user wrote.
pub(super) fn parsed(field: &str, text: &str) -> Answer<Duration> {
    days(text)
        .map_or_else(|| duration(field, text), Ok)
        .map_err(|error| ServiceError::invalid_field(field, format!("{error:#}")))
}

/// `30d`: days have no fixed length in calendars, and 24 hours here.
fn days(text: &str) -> Option<Duration> {
    let days: u32 = text.strip_suffix('d')?.trim().parse().ok()?;
    Some(Duration::from_secs(24 * 3600) * days)
}

/// So much later; a time that the calendar does not have is the last one.
pub(super) fn later(time: Millis, by: Duration) -> Millis {
    Millis(time.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

fn not_found() -> ServiceError {
    ServiceError::not_found("token-not-found", "token")
}

fn role_of(row: &TokenRow) -> Result<Role> {
    let roles = [Role::Platform, Role::Admin, Role::Author, Role::Operator, Role::Reader];
    let found = roles.into_iter().find(|role| word(*role) == row.role);
    found.with_context(|| {
        format!("the catalogue has a token with the role {}, which this server does not know", row.role)
    })
}

fn shown(row: &TokenRow) -> Result<Token> {
    Ok(Token {
        name: row.name.clone(),
        role: role_of(row)?,
        created: row.created.to_string(),
        expires: row.expires.map(|time| time.to_string()),
    })
}
