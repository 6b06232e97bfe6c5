//! From a rule's rows to a runner: what its host is made of.

use super::manifest::{CheckedManifest, CheckedOutput};
use super::registry::TenantEntry;
use super::rule_entry::RuleEntry;
use super::rule_logs::RuleLogs;
use super::{Answer, Service, ServiceError};
use crate::config::HISTORY_BATCHES_DEFAULT;
use crate::event::Position;
use crate::fair::{Share, TenantShare};
use crate::limits::Limits;
use crate::rule_log::{RuleLine, RuleLog, ToTracing};
use crate::runner::{RuleInput, RuleRunner, RuleVersion, RunnerSettings, SinkSettings, Trial};
use crate::state::catalogue::{ActivationRow, Use};
use crate::wasm::Component;
use crate::wasm::cache::Cache;
use crate::wasm::component::{Loader, digest_of};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::fs;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A rule that had nothing to do for so long is closed: long enough that ordinary gaps in a stream cost nothing, short enough that
/// thousands of quiet rules take no memory.
const PARK_AFTER: Duration = Duration::from_secs(10);
/// Threads for the partitions of one rule: two busy rules keep a small machine busy.
const THREADS_MAX: usize = 4;

impl Service {
    /// Lets a rule run, as its rows say. What goes wrong is said in its status: the others go on.
    pub(super) fn start_rule(&self, tenant: &Arc<TenantEntry>, rule: &Arc<RuleEntry>) {
        if let Err(error) = self.try_start_rule(tenant, rule) {
            tracing::error!("the rule {}/{} cannot be started: {error:#}", tenant.name, rule.name);
            rule.set_broken(Some(format!("{error:#}").replace(&*self.data.to_string_lossy(), "DATA")));
        }
    }

    pub(super) fn try_start_rule(&self, tenant: &Arc<TenantEntry>, rule: &Arc<RuleEntry>) -> Result<()> {
        let active = rule.known().active.clone();
        let Some(active) = active else { return Ok(()) };
        let rows = self.catalogue.look(|look| look.activations(&rule.id))?;
        let mut rows = rows.into_iter().skip_while(|row| row.id != active.id).filter(|row| row.took_effect());
        let row = rows.next().context("the catalogue has no activation of what runs")?;
        let version = self.version_of(tenant, &row)?;
        let before = rows.next().filter(|_| !row.is_proven);
        let trial = match (before, row.batch) {
            (Some(before), Some(since)) => Some(Trial { before: self.version_of(tenant, &before)?, since }),
            _ => None,
        };
        self.run_version(tenant, rule, version, trial)
    }

    /// Makes the runner of a rule, for this version.
    pub(super) fn run_version(
        &self,
        tenant: &Arc<TenantEntry>,
        rule: &Arc<RuleEntry>,
        version: RuleVersion,
        trial: Option<Trial>,
    ) -> Result<()> {
        let settings = self.runner_settings(tenant, rule, version, trial)?;
        let (parked, draining) = {
            let known = rule.known();
            (known.parked.clone(), known.draining.clone())
        };
        let runner = RuleRunner::new(settings, &self.runners, parked);
        if let Some(draining) = draining {
            runner.drain(self.ends_of(rule, &draining.ends));
        }
        rule.set_broken(None);
        rule.set_runner(Some(runner));
        Ok(())
    }

    /// What an activation lets run.
    pub(super) fn version_of(&self, tenant: &TenantEntry, row: &ActivationRow) -> Result<RuleVersion> {
        Ok(RuleVersion {
            component: self.component(tenant, &row.asked.digest)?,
            parameters: serde_json::from_str(&row.asked.parameters)?,
            limits: serde_json::from_str(&row.asked.limits)?,
        })
    }

    fn runner_settings(
        &self,
        tenant: &Arc<TenantEntry>,
        rule: &Arc<RuleEntry>,
        version: RuleVersion,
        trial: Option<Trial>,
    ) -> Result<RunnerSettings> {
        let (checked, starts, uses, stopped) = {
            let known = rule.known();
            (Arc::clone(&known.checked), known.starts.clone(), known.uses.clone(), known.stopped.clone())
        };
        let log_of = |used: &Use| {
            let id = uses.iter().find(|(r#use, _)| r#use == used).map(|(_, id)| id);
            let stream = id.and_then(|id| tenant.stream_with_id(id)).context("a stream of the rule is gone")?;
            anyhow::Ok((self.log_of(&stream)?, stream.name.clone()))
        };
        let mut inputs = Vec::new();
        for input in &checked.inputs {
            let (log, stream) = log_of(&Use::Input(input.name.clone()))?;
            let start = starts.get(&input.name).cloned();
            inputs.push(RuleInput {
                stream,
                key: input.key.clone(),
                event_time: input.event_time.clone(),
                watermark: input.watermark,
                start: start.unwrap_or_else(|| vec![Position::default(); log.partitions() as usize]),
                log,
            });
        }
        let sink = match &checked.output {
            CheckedOutput::Stream(_) => {
                let (log, name) = log_of(&Use::Outputs)?;
                SinkSettings::Stream { log, name }
            }
            CheckedOutput::Webhook(webhook) => SinkSettings::Webhook(webhook.clone()),
        };
        Ok(RunnerSettings {
            id: rule.id.to_string(),
            name: format!("{}/{}", tenant.name, rule.name),
            folder: rule.folder.clone(),
            identity: checked.identity(&rule.name, rule.id.as_str()),
            inputs,
            sink,
            loader: self.loader_of(tenant)?,
            share: self.share_of(tenant).clone(),
            version,
            trial,
            batch: checked.batch,
            interval: checked.interval,
            threads: THREADS_MAX.min(checked.partitions as usize),
            history_batches: HISTORY_BATCHES_DEFAULT,
            park_after: Some(self.tuning.park_after.unwrap_or(PARK_AFTER)),
            quarantine: checked.quarantine,
            rollback: checked.rollback,
            log: Arc::new(ToTail { logs: Arc::clone(&rule.logs), clock: self.clock.clone() }),
            stopped,
            twice: self.tuning.twice,
        })
    }

    /// The tenant's share of the cores.
    pub(super) fn share_of<'t>(&self, tenant: &'t TenantEntry) -> &'t TenantShare {
        tenant.share.get_or_init(|| self.runners.share().tenant(tenant.id.as_str(), self.share_by_quotas(tenant)))
    }

    /// Quotas of a tenant are others now.
    pub(super) fn quotas_changed(&self, tenant: &TenantEntry) {
        self.share_of(tenant).set(self.share_by_quotas(tenant));
    }

    fn share_by_quotas(&self, tenant: &TenantEntry) -> Share {
        let quotas = self.quotas_of(tenant);
        Share {
            weight: quotas.weight.unwrap_or(Share::default().weight),
            cpu: quotas.cpu,
            instances_max: quotas.instances,
            outputs_per_second: quotas.outputs_per_second,
        }
    }

    /// Makes components of what the tenant uploaded. Compiled code is the tenant's own: how long an upload takes tells nobody what
    /// others have uploaded.
    pub(super) fn loader_of(&self, tenant: &TenantEntry) -> Result<Arc<Loader>> {
        if let Some(loader) = tenant.loader.get() {
            return Ok(Arc::clone(loader));
        }
        let cache = Cache::open(&tenant.folder.join("cache"))?;
        let loader = Loader::with_engine(self.engine.clone(), Limits::default(), cache, self.compiler.clone());
        Ok(Arc::clone(tenant.loader.get_or_init(|| Arc::new(loader))))
    }

    /// A component of the tenant, loaded once for all of its rules.
    pub(super) fn component(&self, tenant: &TenantEntry, digest: &str) -> Result<Arc<Component>> {
        let mut components = tenant.components.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(component) = components.get(digest).and_then(std::sync::Weak::upgrade) {
            return Ok(component);
        }
        let component = Arc::new(self.load(tenant, digest)?);
        components.retain(|_, component| component.strong_count() > 0);
        components.insert(digest.to_owned(), Arc::downgrade(&component));
        Ok(component)
    }

    /// Loads a component from what was uploaded.
    pub(super) fn load(&self, tenant: &TenantEntry, digest: &str) -> Result<Component> {
        let path = self.data.join(tenant.component_path(digest));
        let bytes = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        ensure!(digest_of(&bytes) == digest, "{} is not the component {digest}: the file was changed", path.display());
        self.loader_of(tenant)?.load(&bytes)
    }
}

/// The positions of a rule's inputs, in their order.
pub(super) fn in_order(checked: &CheckedManifest, by_name: &super::rule_entry::Starts) -> Vec<Vec<Position>> {
    checked.inputs.iter().map(|input| by_name.get(&input.name).cloned().unwrap_or_default()).collect()
}

impl Service {
    fn ends_of(&self, rule: &RuleEntry, ends: &super::rule_entry::Starts) -> Vec<Vec<Position>> {
        in_order(&rule.known().checked, ends)
    }

    /// The runner of a rule, when a version is active.
    pub(super) fn runner_of(&self, rule: &RuleEntry) -> Answer<Arc<RuleRunner>> {
        rule.runner()
            .ok_or_else(|| ServiceError::conflict("rule-not-active", "no version of the rule runs: activate one first"))
    }
}

/// What a rule logs goes to the log of the process and to whoever follows it.
struct ToTail {
    logs: Arc<RuleLogs>,
    clock: crate::clock::Clock,
}

impl RuleLog for ToTail {
    fn line(&self, line: RuleLine<'_>) {
        ToTracing.line(line);
        let levels = ["trace", "debug", "info", "warn"];
        self.logs.push(|| {
            json!({
                "time": self.clock.now().to_string(),
                "level": levels.get(usize::from(line.level)).copied().unwrap_or("error"),
                "key": line.key,
                "text": line.text,
            })
        });
    }
}
