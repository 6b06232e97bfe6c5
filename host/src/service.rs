//! [`Service`]: the rules of many tenants in one process. Each use case is a method, which first asks whether the caller may.
//!
//! Nothing here knows HTTP, and nothing awaits. Methods may wait for the disk and for batches of rules.
//!
//! The catalogue says what there is, and the folders follow it: one is made before the row that names it and goes after it, so a
//! crash leaves at most an empty folder or one that is noted to go. `deed` lets callers change things and writes the audit,
//! `registry` and `rule_entry` are what is known in memory, `running` makes runners of it, `records` notes what runners tell,
//! `checks` looks at uploads in the background, and `sweep` deletes what is past its time.

mod activations;
mod audit;
mod bucket;
mod caller;
mod checks;
mod decide;
mod deed;
mod error;
mod events;
mod letters;
mod looks;
mod manifest;
mod measured;
pub mod metrics;
pub mod model;
mod opening;
mod operation;
mod quota;
mod records;
mod registry;
mod removal;
mod requests;
mod rule_entry;
mod rule_logs;
mod rules;
mod running;
mod secrets;
mod streams;
mod sweep;
mod tails;
mod tenants;
mod tokens;
mod trial;
mod versions;

pub use caller::Caller;
pub use error::{ErrorKind, ServiceError};
pub use operation::{Audited, Operation};
pub use requests::{
    AuditQuery, DeleteRule, EVENTS_DEFAULT, EVENTS_MAX, EventsBody, EventsPage, EventsQuery, Put, Wake,
};
pub use tails::{LogTail, StreamTail};

use crate::clock::Clock;
use crate::folder_lock::FolderLock;
use crate::runner::Runners;
use crate::state::catalogue::Catalogue;
use crate::stream::StreamLimits;
use crate::wasm::Engine;
use crate::wasm::compile::Compiler;
use anyhow::Result;
use checks::Checks;
use model::{Quotas, WhoAmI};
use records::Records;
use registry::Registry;
use secrets::Secrets;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use sweep::Sweeper;

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

/// What only some servers and tests want otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tuning {
    /// A rule that had nothing to do for so long is closed; None: 10 s.
    pub park_after: Option<Duration>,
    /// Whether webhooks may lead into the server's own network.
    pub private_webhooks: bool,
    /// Whether each batch is evaluated twice, for tests.
    pub twice: bool,
    /// A file of a stream that has reached this size is followed by another one; None: 64 MiB.
    pub segment_bytes: Option<u64>,
}

/// The rules of many tenants in one process.
pub struct Service {
    data: PathBuf,
    clock: Clock,
    compiler: Compiler,
    engine: Engine,
    tuning: Tuning,
    catalogue: Arc<Catalogue>,
    registry: Arc<Registry>,
    secrets: Arc<Secrets>,
    default_quotas: RwLock<Quotas>,
    runners: Arc<Runners>,
    records: Arc<Records>,
    checks: Arc<Checks>,
    sweeper: Arc<Sweeper>,
    stream_limits: StreamLimits,
    is_stopping: Arc<AtomicBool>,
    first_secret: Mutex<Option<String>>,
    /// What runs beside requests; ended by [`Service::stop`].
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held as long as the service lives, so that no second one writes the folder.
    _lock: FolderLock,
}

/// What a method answers.
pub type Answer<T> = Result<T, ServiceError>;

/// A name's length at most: a label of DNS, so that it fits wherever names are shown.
const NAME_BYTES_MAX: usize = 63;

impl Service {
    /// Opens or makes a data folder, and lets all rules run that are to run.
    pub fn open(settings: ServiceSettings) -> Result<Arc<Self>> {
        Service::open_tuned(settings, Tuning::default())
    }

    /// The secret of the first platform token, when this opening has made it. Is given once.
    pub fn take_first_secret(&self) -> Option<String> {
        let secret = self.first_secret.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        if let Err(error) = self.platform_is_known() {
            // The next start makes another one, and this one holds until then.
            tracing::error!("it was not noted that the first token was given: {error:#}");
        }
        Some(secret)
    }

    /// Whether requests can be served: it is open, and does not stop.
    pub fn is_ready(&self) -> bool {
        !self.is_stopping.load(Ordering::Relaxed)
    }

    /// Stops all rules at a batch boundary: what is planned is committed. Requests fail from now on, and tails end.
    pub fn stop(&self) {
        if self.is_stopping.swap(true, Ordering::SeqCst) {
            return;
        }
        self.checks.close();
        self.sweeper.close();
        let rules: Vec<_> = self.registry.all().iter().flat_map(|tenant| tenant.all_rules()).collect();
        // All are told before one is waited for.
        rules.iter().filter_map(|rule| rule.runner()).for_each(|runner| runner.ask_to_stop());
        rules.iter().for_each(|rule| rule.stop());
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // One of them may be the last to hold the service. A panic in one was reported.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    /// Sets the quotas of tenants for which nothing else is said, while rules run.
    pub fn set_default_quotas(&self, quotas: Quotas) {
        *self.default_quotas.write().unwrap_or_else(PoisonError::into_inner) = quotas;
        self.registry.all().iter().for_each(|tenant| self.quotas_changed(tenant));
    }

    /// Who has this secret; None when nobody has, or the token has expired or was revoked.
    pub fn authenticate(&self, secret: &str) -> Option<Caller> {
        self.secrets.find(secret)
    }

    /// Whether the caller's secret still holds: what lasts longer than a request asks now and then.
    pub fn is_valid(&self, caller: &Caller) -> bool {
        self.secrets.hold(caller)
    }

    /// Whether the caller may do this to that, before anything else is looked at; a refusal is in the audit where it belongs there.
    pub fn check(&self, caller: &Caller, operation: Operation, target: &str) -> Answer<()> {
        self.allow(caller, operation, target)
    }

    /// Counts a request, and refuses it when its tenant has sent too many.
    pub fn admit(&self, caller: &Caller) -> Answer<()> {
        self.check_open()?;
        let Some(tenant) = caller.tenant.as_ref().and_then(|id| self.registry.tenant(id)) else { return Ok(()) };
        let rate = self.quotas_of(&tenant).requests_per_second.map_or(u64::MAX, u64::from);
        tenant.requests.take(1, rate).map_err(|retry_after| {
            ServiceError::too_many("too-many-requests", retry_after, format!("more than {rate} requests in a second"))
        })
    }

    /// Who the caller is.
    pub fn whoami(&self, caller: &Caller) -> Answer<WhoAmI> {
        self.allow(caller, Operation::WHOAMI, "")?;
        let tenant = caller.tenant.as_ref().map(|_| self.tenant_of(caller)).transpose()?;
        Ok(WhoAmI { tenant: tenant.map(|tenant| tenant.name.clone()), token: caller.name.clone(), role: caller.role })
    }

    fn check_open(&self) -> Answer<()> {
        match self.is_ready() {
            true => Ok(()),
            false => Err(ServiceError::unavailable("stopping", "the server stops: try again when it runs")),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Refuses what cannot be a name.
fn check_name(field: &str, name: &str) -> Answer<()> {
    let is_right = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let first = name.bytes().next();
    let all = name.bytes().all(|byte| is_right(byte) || b"._-".contains(&byte));
    if first.is_some_and(is_right) && all && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "a name has 1 to {NAME_BYTES_MAX} small letters, digits, '.', '_' and '-', and begins with a letter or a digit"
    );
    Err(ServiceError::invalid_field(field, message))
}
