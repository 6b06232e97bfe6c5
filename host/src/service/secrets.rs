//! [`Secrets`]: which secret belongs to which token, in memory, by the hash of the secret.
//!
//! Whoever tries secrets gets no help from the time it takes: each is hashed whole and looked up once, and what the look-up takes
//! depends on the hash alone.

use super::Caller;
use super::model::Role;
use crate::clock::Clock;
use crate::event::Millis;
use crate::state::catalogue::{TenantId, TokenId, TokenRow};
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::{PoisonError, RwLock};

/// What every secret begins with, so that scanners for leaked secrets know it.
const PREFIX: &str = "kf_";

/// SHA-256 of a secret.
pub(super) type Hash = [u8; 32];

/// Which secret belongs to which token.
pub(super) struct Secrets {
    clock: Clock,
    by_hash: RwLock<HashMap<Hash, Holder>>,
}

#[derive(Clone)]
struct Holder {
    token: TokenId,
    name: String,
    role: Role,
    tenant: Option<TenantId>,
    /// When the secret ends: with its token, or after a rotation.
    until: Option<Millis>,
}

impl Secrets {
    pub(super) fn new(clock: Clock) -> Self {
        Secrets { clock, by_hash: RwLock::default() }
    }

    /// Who has this secret.
    pub(super) fn find(&self, secret: &str) -> Option<Caller> {
        let hash = hash_of(secret);
        let holder = self.holder(&hash)?;
        let Holder { token, name, role, tenant, .. } = holder;
        Some(Caller { token, name, role, tenant, request_id: String::new(), secret: hash })
    }

    /// Whether the secret that a caller came with still holds.
    pub(super) fn hold(&self, caller: &Caller) -> bool {
        self.holder(&caller.secret).is_some_and(|holder| holder.token == caller.token)
    }

    fn holder(&self, hash: &Hash) -> Option<Holder> {
        let holder = self.by_hash.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned();
        holder.filter(|holder| holder.until.is_none_or(|until| self.clock.now() < until))
    }

    /// Takes a token as it is now, in the place of what was known of it.
    pub(super) fn put(&self, row: &TokenRow, role: Role) {
        let mut by_hash = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        by_hash.retain(|_, holder| holder.token != row.id);
        let holder = Holder {
            token: row.id.clone(),
            name: row.name.clone(),
            role,
            tenant: row.tenant.clone(),
            until: row.expires,
        };
        if let Some((hash, until)) = row.old {
            let until = row.expires.map_or(until, |expires| expires.min(until));
            by_hash.insert(hash, Holder { until: Some(until), ..holder.clone() });
        }
        by_hash.insert(row.hash, holder);
    }

    /// A token has ended.
    pub(super) fn remove(&self, token: &TokenId) {
        self.by_hash.write().unwrap_or_else(PoisonError::into_inner).retain(|_, holder| holder.token != *token);
    }

    /// All tokens of a tenant have ended.
    pub(super) fn remove_tenant(&self, tenant: &TenantId) {
        let mut by_hash = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        by_hash.retain(|_, holder| holder.tenant.as_ref() != Some(tenant));
    }
}

/// A secret that nobody can guess, and its hash.
pub(super) fn new_secret() -> Result<(String, Hash)> {
    let mut random = [0_u8; 32];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .context("failed to read random bytes from /dev/urandom")?;
    let secret = random.iter().fold(PREFIX.to_owned(), |text, byte| text + &format!("{byte:02x}"));
    let hash = hash_of(&secret);
    Ok((secret, hash))
}

pub(super) fn hash_of(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}
