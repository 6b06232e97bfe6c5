//! [`Registry`]: the tenants and what each of them has, in memory. A name is looked up among the tenant's own things only, so
//! nothing can depend on what others have: not the answer, and not the time it takes.

use super::bucket::Bucket;
use super::model::{Quotas, StreamSettings};
use super::rule_entry::RuleEntry;
use super::{Answer, ServiceError};
use crate::event::Millis;
use crate::fair::TenantShare;
use crate::state::catalogue::{StreamId, TenantId};
use crate::stream::StreamLog;
use crate::wasm::Component;
use crate::wasm::component::Loader;
use anyhow::Result;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

/// All tenants.
#[derive(Default)]
pub(super) struct Registry(RwLock<Tenants>);

#[derive(Default)]
struct Tenants {
    by_id: HashMap<TenantId, Arc<TenantEntry>>,
    by_name: BTreeMap<String, TenantId>,
}

/// A tenant.
pub(super) struct TenantEntry {
    pub id: TenantId,
    pub name: String,
    pub created: Millis,
    /// Relative to the data folder.
    pub path: String,
    pub folder: PathBuf,
    /// What was set for it.
    pub quotas: RwLock<Quotas>,
    pub requests: Bucket,
    pub events: Bucket,
    pub streams: RwLock<BTreeMap<String, Arc<StreamEntry>>>,
    pub rules: RwLock<BTreeMap<String, Arc<RuleEntry>>>,
    /// Its share of the cores, with which it goes on whether one of its rules is open or not.
    pub share: OnceLock<TenantShare>,
    /// Makes components of its own compiled code.
    pub loader: OnceLock<Arc<Loader>>,
    /// Those that are in use, so that rules with the same code share it.
    pub components: Mutex<HashMap<String, Weak<Component>>>,
    changing: Mutex<IsGone>,
}

/// Whether a tenant was deleted while somebody waited to change it.
#[derive(Default)]
pub(super) struct IsGone(pub bool);

/// A stream.
pub(super) struct StreamEntry {
    pub id: StreamId,
    pub name: String,
    pub created: Millis,
    pub path: String,
    pub folder: PathBuf,
    pub settings: RwLock<StreamSettings>,
    /// Opened when it is first used.
    log: Mutex<Option<Arc<StreamLog>>>,
    /// Bytes of its files before it was opened.
    bytes_before: OnceLock<u64>,
    /// The names of the rules for which events are kept that are past their retention.
    held_by: Mutex<Vec<String>>,
}

impl Registry {
    pub(super) fn tenant(&self, id: &TenantId) -> Option<Arc<TenantEntry>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).by_id.get(id).cloned()
    }

    pub(super) fn named(&self, name: &str) -> Answer<Arc<TenantEntry>> {
        let tenants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = tenants.by_name.get(name).and_then(|id| tenants.by_id.get(id));
        found.cloned().ok_or_else(|| ServiceError::not_found("tenant-not-found", "tenant"))
    }

    /// All, in the order of their names.
    pub(super) fn all(&self) -> Vec<Arc<TenantEntry>> {
        let tenants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tenants.by_name.values().filter_map(|id| tenants.by_id.get(id)).cloned().collect()
    }

    pub(super) fn add(&self, tenant: Arc<TenantEntry>) {
        let mut tenants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tenants.by_name.insert(tenant.name.clone(), tenant.id.clone());
        tenants.by_id.insert(tenant.id.clone(), tenant);
    }

    pub(super) fn remove(&self, tenant: &TenantEntry) {
        let mut tenants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tenants.by_id.remove(&tenant.id);
        if tenants.by_name.get(&tenant.name) == Some(&tenant.id) {
            tenants.by_name.remove(&tenant.name);
        }
    }
}

impl TenantEntry {
    pub(super) fn new(data: &Path, id: TenantId, name: String, created: Millis, quotas: Quotas) -> Self {
        let path = format!("tenants/{id}");
        TenantEntry {
            folder: data.join(&path),
            id,
            name,
            created,
            path,
            quotas: RwLock::new(quotas),
            requests: Bucket::new(),
            events: Bucket::new(),
            streams: RwLock::default(),
            rules: RwLock::default(),
            share: OnceLock::new(),
            loader: OnceLock::new(),
            components: Mutex::default(),
            changing: Mutex::default(),
        }
    }

    /// Lets one change at a time be made to what the tenant has, so that counts and names stay as they were looked at.
    pub(super) fn lock(&self) -> Answer<MutexGuard<'_, IsGone>> {
        let guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.0 {
            return Err(ServiceError::forbidden("the tenant was deleted"));
        }
        Ok(guard)
    }

    pub(super) fn stream(&self, name: &str) -> Answer<Arc<StreamEntry>> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.get(name).cloned().ok_or_else(|| ServiceError::not_found("stream-not-found", "stream"))
    }

    pub(super) fn stream_with_id(&self, id: &StreamId) -> Option<Arc<StreamEntry>> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.values().find(|stream| stream.id == *id).cloned()
    }

    pub(super) fn all_streams(&self) -> Vec<Arc<StreamEntry>> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(super) fn rule(&self, name: &str) -> Answer<Arc<RuleEntry>> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.get(name).cloned().ok_or_else(|| ServiceError::not_found("rule-not-found", "rule"))
    }

    pub(super) fn all_rules(&self) -> Vec<Arc<RuleEntry>> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(super) fn own_quotas(&self) -> Quotas {
        self.quotas.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes of all streams.
    pub(super) fn stream_bytes(&self) -> u64 {
        self.all_streams().iter().map(|stream| stream.bytes()).sum()
    }

    /// Where the bytes of a component lie, relative to the data folder.
    pub(super) fn component_path(&self, digest: &str) -> String {
        format!("{}/components/{}.wasm", self.path, digest.strip_prefix("sha256:").unwrap_or(digest))
    }
}

impl StreamEntry {
    pub(super) fn new(
        data: &Path,
        tenant: &TenantId,
        id: StreamId,
        name: String,
        created: Millis,
        settings: StreamSettings,
    ) -> Self {
        let path = format!("tenants/{tenant}/streams/{id}");
        StreamEntry {
            folder: data.join(&path),
            id,
            name,
            created,
            path,
            settings: RwLock::new(settings),
            log: Mutex::default(),
            bytes_before: OnceLock::new(),
            held_by: Mutex::default(),
        }
    }

    /// The names of the rules for which events are kept that are past their retention.
    pub(super) fn held_by(&self) -> Vec<String> {
        self.held_by.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_held_by(&self, rules: Vec<String>) {
        *self.held_by.lock().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    pub(super) fn settings(&self) -> StreamSettings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The log, opened by `open` if it was not.
    pub(super) fn log(&self, open: impl FnOnce(&StreamEntry) -> Result<StreamLog>) -> Result<Arc<StreamLog>> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &*log {
            return Ok(Arc::clone(log));
        }
        let opened = Arc::new(open(self)?);
        *log = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The log, if it is open.
    pub(super) fn open_log(&self) -> Option<Arc<StreamLog>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes as they are stored.
    pub(super) fn bytes(&self) -> u64 {
        match self.open_log() {
            Some(log) => log.bytes(),
            None => *self.bytes_before.get_or_init(|| folder_bytes(&self.folder)),
        }
    }
}

/// Bytes of the files below a folder. What goes meanwhile counts nothing.
pub(super) fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
