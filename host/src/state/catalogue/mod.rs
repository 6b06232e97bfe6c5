//! [`Catalogue`]: what the service knows of tenants, tokens, streams, rules, versions and activations, and the audit of who changed
//! what: one SQLite file.
//!
//! Every change is one transaction with the lines of the audit that tell of it: neither is there without the other. Folders are
//! not in it: one is made before the row that names it, and a row is deleted together with a note that its folder is to go.

mod activation_table;
mod audit_head;
mod audit_table;
mod audit_verify;
mod forget;
mod ids;
mod reference_table;
mod removal_table;
mod rule_table;
mod stream_table;
mod tenant_table;
mod token_table;
mod version_table;

pub use activation_table::{ActivationRow, ActivationStatus, NewActivation};
pub use audit_table::{AuditLine, NewLine};
pub use audit_verify::{AuditFound, verify_audit};
pub use ids::{RuleId, StreamId, TenantId, TokenId};
pub use reference_table::{Reference, Use};
pub use rule_table::RuleRow;
pub use stream_table::StreamRow;
pub use tenant_table::TenantRow;
pub use token_table::TokenRow;
pub use version_table::{CheckStatus, VersionRow};

use super::{clean, hold, meta_table, settings};
use crate::fault;
use anyhow::{Context, Result};
use audit_head::AuditHead;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde_json::Value;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file in the data folder.
const FILE: &str = "catalogue.db";

const TABLES: &[&str] = &[
    meta_table::SCHEMA,
    tenant_table::SCHEMA,
    token_table::SCHEMA,
    stream_table::SCHEMA,
    rule_table::SCHEMA,
    reference_table::SCHEMA,
    version_table::SCHEMA,
    activation_table::SCHEMA,
    removal_table::SCHEMA,
    audit_table::SCHEMA,
];

/// What the service knows. Shared by all who ask; one change is made at a time.
pub struct Catalogue {
    path: PathBuf,
    inner: Mutex<Inner>,
}

struct Inner {
    connection: Connection,
    head: AuditHead,
    /// Whether all changes went well, so that the file may be marked as closed in order.
    is_sound: bool,
}

/// A change under way, or a look at what is there: one transaction.
pub struct Change<'c> {
    transaction: Transaction<'c>,
    lines: RefCell<Vec<NewLine>>,
}

impl Catalogue {
    /// Opens or makes the catalogue of a data folder, which the caller has locked.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let connection = settings::open(&path, TABLES)?;
        let head = AuditHead::open(folder, audit_table::last(&connection)?)?;
        Ok(Catalogue { path, inner: Mutex::new(Inner { connection, head, is_sound: true }) })
    }

    /// Makes a change: all of it with its lines of the audit, or nothing. What it returns is on the disk.
    pub fn change<T>(&self, change: impl FnOnce(&Change<'_>) -> Result<T>) -> Result<T> {
        self.change_and(change, |_| {})
    }

    /// The same, and does something when the change is on the disk and before anybody makes another one: so what is kept of it in
    /// memory follows in the same order.
    pub fn change_and<T>(&self, change: impl FnOnce(&Change<'_>) -> Result<T>, then: impl FnOnce(&T)) -> Result<T> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        inner.is_sound = false;
        let value = write(&mut inner.connection, &mut inner.head, change)
            .map_err(|error| hold::ended_by_sync(&self.path, error))
            .inspect_err(|_| inner.is_sound = true)?;
        fault::point("catalogue-committed");
        inner.head.done();
        inner.is_sound = true;
        then(&value);
        settings::checkpoint_when_long(&inner.connection, &self.path)?;
        Ok(value)
    }

    /// Looks at what is there, as of one moment.
    pub fn look<T>(&self, look: impl FnOnce(&Change<'_>) -> Result<T>) -> Result<T> {
        let mut inner = self.lock();
        let transaction = inner.connection.transaction()?;
        // Nothing is written: dropping it ends it.
        look(&Change { transaction, lines: RefCell::default() })
    }

    /// What was written down beside the catalogue of the end of its audit, as JSON, when the audit did not end so at the opening: somebody
    /// has cut it off, or put an older copy in its place. Is told once: the next line is written over it.
    pub fn take_audit_disagreement(&self) -> Result<Option<Value>> {
        Ok(self.lock().head.take_disagreement().map(serde_json::to_value).transpose()?)
    }

    /// Writes a line of the audit that goes with no change: something was refused.
    pub fn record(&self, line: NewLine) -> Result<()> {
        self.change(|change| {
            change.record(line);
            Ok(())
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One transaction. What fails is undone with it.
fn write<T>(
    connection: &mut Connection,
    head: &mut AuditHead,
    change: impl FnOnce(&Change<'_>) -> Result<T>,
) -> Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let under_way = Change { transaction, lines: RefCell::default() };
    let value = change(&under_way)?;
    let Change { transaction, lines } = under_way;
    clean::clear(&transaction)?;
    if let Some(end) = audit_table::append(&transaction, &lines.into_inner())? {
        head.begin(&end)?;
        fault::point("audit-head-written");
    }
    transaction.commit().context("failed to write to the catalogue")?;
    Ok(value)
}

impl Change<'_> {
    /// Whether this was set.
    pub fn is_set(&self, name: &str) -> Result<bool> {
        Ok(meta_table::get::<i64>(&self.transaction, name)?.is_some())
    }

    /// Sets something that stays so.
    pub fn set(&self, name: &str) -> Result<()> {
        meta_table::set(&self.transaction, name, 1)
    }

    /// Adds a line to the audit, when the change is made.
    pub fn record(&self, line: NewLine) {
        self.lines.borrow_mut().push(line);
    }
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if inner.is_sound {
            clean::close(&inner.connection, &self.path);
        }
    }
}
