//! [`RuleEntry`]: a rule in memory: what its catalogue rows say, and its runner once a version is active.

use super::manifest::CheckedManifest;
use super::model::Manifest;
use super::registry::folder_bytes;
use super::rule_logs::RuleLogs;
use super::{Answer, ServiceError};
use crate::event::{Millis, Position};
use crate::runner::{Parked, RuleRunner, RunnerStatus, Stopped};
use crate::state::catalogue::{ActivationRow, Change, RuleId, StreamId, TenantId, Use};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// A rule.
pub(super) struct RuleEntry {
    pub id: RuleId,
    pub name: String,
    pub created: Millis,
    /// Relative to the data folder.
    pub path: String,
    pub folder: PathBuf,
    pub logs: Arc<RuleLogs>,
    known: RwLock<Known>,
    runner: Mutex<Option<Arc<RuleRunner>>>,
    changing: Mutex<()>,
    /// Why there is no runner although there should be.
    broken: Mutex<Option<String>>,
    /// Bytes of its folder when it was looked at last.
    bytes: AtomicU64,
    /// Its runner has nothing left to do, when it is being deleted.
    is_drained: AtomicBool,
}

/// What is known of a rule besides its runner. Changed together with its rows in the catalogue.
pub(super) struct Known {
    pub manifest: Manifest,
    pub checked: Arc<CheckedManifest>,
    /// Where each input begins, by its name.
    pub starts: Starts,
    /// Which streams it uses.
    pub uses: Vec<(Use, StreamId)>,
    /// What runs, or is to run.
    pub active: Option<Active>,
    pub stopped: Option<Stopped>,
    pub parked: Option<Parked>,
    pub draining: Option<Draining>,
}

/// Where each input begins, by its name: a position for each partition of the stream.
pub(super) type Starts = BTreeMap<String, Vec<Position>>;

/// What runs of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Active {
    /// The number of the activation.
    pub id: i64,
    pub digest: String,
    /// What the component calls its version.
    pub version: String,
}

/// What a manifest says of the version that runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Declared {
    pub parameters: Value,
    pub limits: BTreeMap<String, u64>,
}

impl Declared {
    /// What a manifest says.
    pub(super) fn of(manifest: &Manifest) -> Self {
        Declared { parameters: manifest.parameters.clone(), limits: manifest.limits.clone() }
    }
}

/// A rule that is being deleted, and finishes what it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Draining {
    /// Where its inputs end, by their names.
    pub ends: Starts,
    /// It goes at the latest then.
    pub until: Millis,
}

impl Active {
    /// As a row says.
    pub(super) fn of(row: &ActivationRow) -> Self {
        Active { id: row.id, digest: row.asked.digest.clone(), version: row.asked.version.clone() }
    }
}

impl RuleEntry {
    pub(super) fn new(data: &Path, tenant: &TenantId, id: RuleId, name: String, created: Millis, known: Known) -> Self {
        let path = path_of(tenant, &id);
        RuleEntry {
            folder: data.join(&path),
            id,
            name,
            created,
            path,
            logs: Arc::default(),
            known: RwLock::new(known),
            runner: Mutex::default(),
            changing: Mutex::default(),
            broken: Mutex::default(),
            bytes: AtomicU64::new(0),
            is_drained: AtomicBool::new(false),
        }
    }

    /// Its runner has nothing left to do.
    pub(super) fn set_drained(&self) {
        self.is_drained.store(true, Ordering::Relaxed);
    }

    /// Whether its runner has nothing left to do. A rule without one has nothing to finish.
    pub(super) fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Relaxed) || (self.known().active.is_none() && self.runner().is_none())
    }

    pub(super) fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one change at a time be made to it. Activations wait for the rule, so others are not made to wait for them.
    pub(super) fn lock(&self) -> Answer<MutexGuard<'_, ()>> {
        match self.changing.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(ServiceError::conflict(
                "rule-busy",
                "another change of the rule is under way: try again when it is done",
            )),
        }
    }

    /// The same for whoever has to.
    pub(super) fn wait_for_lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn runner(&self) -> Option<Arc<RuleRunner>> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_runner(&self, runner: Option<Arc<RuleRunner>>) -> Option<Arc<RuleRunner>> {
        std::mem::replace(&mut self.runner.lock().unwrap_or_else(PoisonError::into_inner), runner)
    }

    /// Why there is no runner although there should be.
    pub(super) fn broken(&self) -> Option<String> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_broken(&self, why: Option<String>) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Stops it at a batch boundary, and lets go of it.
    pub(super) fn stop(&self) {
        if let Some(runner) = self.set_runner(None) {
            runner.stop();
        }
    }

    pub(super) fn status(&self) -> Option<RunnerStatus> {
        self.runner().map(|runner| runner.status())
    }

    /// Sets the parameters and limits of its manifest to what was declared, as JSON, with an activation that goes back to it.
    pub(super) fn declare(&self, change: &Change<'_>, declared: &str) -> Result<()> {
        let declared: Declared = serde_json::from_str(declared)?;
        let (manifest, starts) = {
            let known = self.known();
            (
                Manifest { parameters: declared.parameters, limits: declared.limits, ..known.manifest.clone() },
                known.starts.clone(),
            )
        };
        change.set_manifest(&self.id, &serde_json::to_string(&manifest)?, &serde_json::to_string(&starts)?)?;
        self.known_mut().manifest = manifest;
        Ok(())
    }

    /// Keys with state or a timeout.
    pub(super) fn keys(&self) -> u64 {
        match self.status() {
            Some(status) => status.keys,
            None => self.known().parked.as_ref().map_or(0, |parked| parked.keys),
        }
    }

    /// Bytes of its folder when they were counted last.
    pub(super) fn state_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts the bytes of its folder.
    pub(super) fn count_bytes(&self) -> u64 {
        let bytes = folder_bytes(&self.folder);
        self.bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// Whether it reads a stream.
    pub(super) fn reads(&self, stream: &StreamId) -> bool {
        self.known().uses.iter().any(|(r#use, used)| used == stream && matches!(r#use, Use::Input(_)))
    }

    /// The stream that its outputs go to.
    pub(super) fn output_stream(&self) -> Option<StreamId> {
        let known = self.known();
        known.uses.iter().find(|(r#use, _)| *r#use == Use::Outputs).map(|(_, stream)| stream.clone())
    }

    /// The streams of its inputs, in their order.
    pub(super) fn input_streams(&self) -> Vec<StreamId> {
        let known = self.known();
        let of = |name: &str| {
            known
                .uses
                .iter()
                .find(|(r#use, _)| matches!(r#use, Use::Input(input) if input == name))
                .map(|(_, id)| id.clone())
        };
        known.checked.inputs.iter().filter_map(|input| of(&input.name)).collect()
    }

    /// Where the reading of each input goes on, in their order: below this nothing will ever be read again.
    pub(super) fn needed(&self) -> Vec<Vec<Position>> {
        if let Some(runner) = self.runner() {
            return runner.needed();
        }
        let known = self.known();
        let start = |input: &super::manifest::CheckedInput| known.starts.get(&input.name).cloned().unwrap_or_default();
        match &known.parked {
            Some(parked) => parked.positions.clone(),
            None => known.checked.inputs.iter().map(start).collect(),
        }
    }
}

/// Where a rule's data folder lies, relative to the server's.
pub(super) fn path_of(tenant: &TenantId, rule: &RuleId) -> String {
    format!("tenants/{tenant}/rules/{rule}")
}
