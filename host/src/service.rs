//! [`Service`]: the rules of many tenants in one process. Each use case is a method, which first asks whether the caller may.
//!
//! Nothing here knows HTTP, and nothing awaits. Methods may wait for the disk and for batches of rules.

mod caller;
mod error;
mod events;
pub mod metrics;
pub mod model;
mod operation;
mod requests;
mod rules;
mod streams;
mod tails;
mod tenants;
mod tokens;
mod versions;

pub use caller::Caller;
pub use error::{ErrorKind, ServiceError};
pub use operation::{Audited, Operation};
pub use requests::{
    AuditQuery, DeleteRule, EVENTS_DEFAULT, EVENTS_MAX, EventsBody, EventsPage, EventsQuery, Put, Wake,
};
pub use tails::{LogTail, StreamTail};

use crate::clock::Clock;
use crate::wasm::compile::Compiler;
use anyhow::Result;
use metrics::MetricsSnapshot;
use model::{AuditEntry, Quotas, WhoAmI};
use std::path::PathBuf;
use std::sync::Arc;

/// What a service is made of.
pub struct ServiceSettings {
    /// The data folder.
    pub data: PathBuf,
    /// Where the time comes from.
    pub clock: Clock,
    /// Compiles what is uploaded.
    pub compiler: Compiler,
    /// Quotas of tenants for which nothing else is said; what is absent here has a default as well.
    pub quotas: Quotas,
}

/// The rules of many tenants in one process.
pub struct Service {}

/// What a method answers.
pub type Answer<T> = Result<T, ServiceError>;

fn not_yet<T>() -> Answer<T> {
    Err(ServiceError::unavailable("not-yet", "this is not built yet"))
}

impl Service {
    /// Whether a caller's role allows an operation; when it does not, the audit records that it was refused.
    pub fn check(&self, caller: &Caller, operation: Operation, target: &str) -> Answer<()> {
        let _ = target;
        match operation.allows(caller.role) {
            true => Ok(()),
            false => Err(ServiceError::forbidden(format!("your role does not allow {}", operation.name))),
        }
    }

    /// Opens or makes a data folder, and lets all rules run that are to run.
    pub fn open(settings: ServiceSettings) -> Result<Arc<Self>> {
        let _ = settings;
        Ok(Arc::new(Service {}))
    }

    /// The secret of the first platform token, when this opening has made the folder. Is given once.
    pub fn take_first_secret(&self) -> Option<String> {
        None
    }

    /// Whether requests can be served: it is open, and does not stop.
    pub fn is_ready(&self) -> bool {
        true
    }

    /// Stops all rules at a batch boundary: what is planned is committed. Requests fail from now on, and tails end.
    pub fn stop(&self) {}

    /// Sets the quotas of tenants for which nothing else is said, while rules run.
    pub fn set_default_quotas(&self, quotas: Quotas) {
        let _ = quotas;
    }

    /// Who has this secret; None when nobody has, or the token has expired or was revoked.
    pub fn authenticate(&self, secret: &str) -> Option<Caller> {
        let _ = secret;
        None
    }

    /// Whether the caller's token still holds: what lasts longer than a request asks now and then.
    pub fn is_valid(&self, caller: &Caller) -> bool {
        let _ = caller;
        false
    }

    /// Counts a request, and refuses it when its tenant has sent too many.
    pub fn admit(&self, caller: &Caller) -> Answer<()> {
        let _ = caller;
        not_yet()
    }

    /// Whether the caller may do this to that, before anything else is looked at; a refusal is in the audit where it belongs there.
    pub fn check(&self, caller: &Caller, operation: Operation, target: &str) -> Answer<()> {
        let _ = target;
        if operation.allows(caller.role) {
            Ok(())
        } else {
            Err(ServiceError::forbidden("the token's role does not allow it"))
        }
    }

    /// Who the caller is.
    pub fn whoami(&self, caller: &Caller) -> Answer<WhoAmI> {
        let _ = caller;
        not_yet()
    }

    /// Lines of the audit: a tenant's admin gets its tenant's, the platform all of them.
    pub fn audit(&self, caller: &Caller, query: AuditQuery) -> Answer<Vec<AuditEntry>> {
        let _ = (caller, query);
        not_yet()
    }

    /// What is measured: a tenant sees its own, the platform all.
    pub fn metrics(&self, caller: &Caller) -> Answer<MetricsSnapshot> {
        let _ = caller;
        not_yet()
    }
}
