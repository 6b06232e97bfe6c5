//! [`Checks`]: uploads that wait to be looked at, and what is looked at. One upload of a tenant at a time, and few in all: compiling
//! takes seconds of a core.

use super::manifest::CheckedManifest;
use super::model::VersionTrial;
use super::registry::TenantEntry;
use super::rule_entry::RuleEntry;
use super::{Answer, Service, ServiceError};
use crate::description::{Description, TimeoutKind};
use crate::event::PartitionId;
use crate::host::StateChoice;
use crate::state::catalogue::{CheckStatus, TenantId};
use crate::state::reader::PartitionReader;
use crate::wasm::Component;
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Uploads of one tenant that may wait.
const WAITING_MAX: usize = 16;
/// States that are looked at for their schemas. The host looks at all of them when the version is activated.
const STATES_LOOKED_AT: usize = 200_000;

/// Uploads that wait to be looked at.
#[derive(Default)]
pub(super) struct Checks {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    busy: HashSet<TenantId>,
    is_closed: bool,
}

struct Job {
    tenant: Arc<TenantEntry>,
    rule: Arc<RuleEntry>,
    digest: String,
}

/// What the checks found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    /// What may become of the states that are there.
    pub possible: Vec<StateChoice>,
    /// How it did on trial.
    pub trial: Option<VersionTrial>,
}

impl Checks {
    /// Whether a tenant may let another upload wait.
    pub(super) fn has_room(&self, tenant: &TenantId) -> Answer<()> {
        let waiting = self.lock().waiting.iter().filter(|job| job.tenant.id == *tenant).count();
        if waiting < WAITING_MAX {
            return Ok(());
        }
        let message = format!("{waiting} uploads wait for their checks: send this one later");
        Err(ServiceError::too_many("too-many-checks", Duration::from_secs(10), message))
    }

    pub(super) fn add(&self, tenant: Arc<TenantEntry>, rule: Arc<RuleEntry>, digest: String) {
        self.lock().waiting.push_back(Job { tenant, rule, digest });
        self.changed.notify_all();
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        let queue = self.lock();
        queue.waiting.len() + queue.busy.len()
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Checks what comes, until it is closed or the service is gone.
    pub(super) fn run(&self, service: &Weak<Service>) {
        while let Some(job) = self.next() {
            let Some(service) = service.upgrade() else { return };
            service.check_version(&job.tenant, &job.rule, &job.digest);
            drop(service);
            self.lock().busy.remove(&job.tenant.id);
            self.changed.notify_all();
        }
    }

    /// The first one whose tenant has none that is being looked at.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            let next = queue.waiting.iter().position(|job| !queue.busy.contains(&job.tenant.id));
            if let Some(job) = next.and_then(|next| queue.waiting.remove(next)) {
                queue.busy.insert(job.tenant.id.clone());
                return Some(job);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Looks at an upload and writes down what was found.
    fn check_version(&self, tenant: &Arc<TenantEntry>, rule: &Arc<RuleEntry>, digest: &str) {
        let mut description = None;
        let checked = self.look_at(tenant, rule, digest, &mut description);
        let written = self.catalogue.change(|change| {
            // The rule may have been deleted meanwhile.
            let Some(mut row) = change.version(&rule.id, digest)? else { return Ok(()) };
            let outcome = match &checked {
                Ok(report) => {
                    (row.status, row.reason) = (CheckStatus::Ready, None);
                    row.report = Some(serde_json::to_string(report)?);
                    "ready"
                }
                Err(error) => {
                    let reason = format!("{error:#}").replace(&*self.data.to_string_lossy(), "DATA");
                    (row.status, row.reason, row.report) = (CheckStatus::Refused, Some(reason), None);
                    "refused"
                }
            };
            row.description = description.as_ref().map(serde_json::to_string).transpose()?;
            change.put_version(&row)?;
            let mut line = self.own_line_of(tenant, "version.check", &rule.name, digest, outcome);
            line.details = json!({ "reason": row.reason });
            change.record(line);
            Ok(())
        });
        if let Err(error) = written {
            tracing::error!("what the checks of {}/{} found was not written: {error:#}", tenant.name, rule.name);
        }
    }

    /// Loads it as it would be run, and tries it. An error is why it is refused.
    fn look_at(
        &self,
        tenant: &Arc<TenantEntry>,
        rule: &Arc<RuleEntry>,
        digest: &str,
        said: &mut Option<Description>,
    ) -> Result<Report> {
        let component = self.load(tenant, digest)?;
        // The schema of the parameters can be a megabyte, and is in the component.
        *said = Some(Description { parameters: serde_json::Value::Null, ..component.description().clone() });
        let checked = Arc::clone(&rule.known().checked);
        check_event_time(component.description(), &checked)?;
        let parameters = checked.parameters.to_string();
        self.loader_of(tenant)?.check_parameters(&component, parameters.as_bytes())?;
        let present = schemas_of(rule, checked.partitions)?;
        let trial = self.try_version(tenant, rule, &component)?;
        if let Some(trial) = trial.as_ref().filter(|trial| trial.groups > 0 && trial.failed == trial.groups) {
            let message = trial.message.as_deref().unwrap_or_default();
            bail!("it failed for all of the last {} keys of its inputs on trial: {message}", trial.groups);
        }
        Ok(Report { possible: possible(&component, &present), trial })
    }
}

fn check_event_time(description: &Description, checked: &CheckedManifest) -> Result<()> {
    let has_time = checked.inputs.iter().any(|input| input.event_time.is_some());
    ensure!(
        has_time || description.timeout != TimeoutKind::EventTime,
        "it sets timeouts in event time and the rule's inputs have none: name the field as event_time"
    );
    Ok(())
}

/// What may become of states of these schemas.
fn possible(component: &Component, present: &BTreeSet<u32>) -> Vec<StateChoice> {
    let readable = &component.description().readable_schemas;
    let reads_all = present.iter().all(|schema| readable.contains(schema));
    let choices = [
        (StateChoice::Keep, reads_all),
        (StateChoice::Migrate, component.has_migration()),
        (StateChoice::Fresh, true),
        (StateChoice::Drain, true),
    ];
    choices.into_iter().filter(|(_, is_possible)| *is_possible).map(|(choice, _)| choice).collect()
}

/// The schemas of a rule's states.
fn schemas_of(rule: &RuleEntry, partitions: u32) -> Result<BTreeSet<u32>> {
    let mut schemas = BTreeSet::new();
    let mut seen = 0;
    for partition in (0..partitions).map(PartitionId) {
        // A rule that has not run has no files.
        let Ok(reader) = PartitionReader::open(&rule.folder, partition) else { continue };
        let scanned = reader.scan(|row| {
            schemas.extend(row.state.map(|(_, schema)| schema));
            seen += 1;
            ensure!(seen < STATES_LOOKED_AT, "enough");
            Ok(())
        });
        if seen < STATES_LOOKED_AT {
            scanned?;
        }
    }
    Ok(schemas)
}
