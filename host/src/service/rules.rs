//! Rules: made, changed, looked at, paused, deleted.

use super::activations::{Wanted, not_draining};
use super::deed::Deed;
use super::manifest::{self, CheckedManifest, CheckedOutput};
use super::model::{self, Manifest, Quotas, Rule, RuleState, RuleStatus, StreamSettings, VersionName};
use super::registry::{IsGone, StreamEntry, TenantEntry};
use super::rule_entry::{Declared, Draining, Known, RuleEntry, Starts, path_of};
use super::tokens::{later, parsed};
use super::{Answer, Caller, DeleteRule, Operation, Put, Service, ServiceError, quota};
use crate::event::Position;
use crate::fault;
use crate::host::StateChoice;
use crate::runner::{RuleVersion, RunnerState, RunnerStatus, Stopped};
use crate::state::catalogue::{NewLine, RuleId, RuleRow, StreamId, Use};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use std::sync::{Arc, MutexGuard, PoisonError};

impl Service {
    /// Reads a manifest, and tells which of its fields is wrong.
    pub fn parse_manifest(json: &[u8]) -> Answer<Manifest> {
        manifest::parse(json)
    }

    /// Reads the manifest of a rule of this name, and checks all that can be checked without the tenant's streams.
    pub fn check_manifest(name: &str, json: &[u8], quotas: &Quotas) -> Answer<Manifest> {
        let manifest = manifest::parse(json)?;
        CheckedManifest::new(name, &manifest, quotas, false)?;
        Ok(manifest)
    }

    /// Makes a rule, or changes what can be changed of it. A change of parameters or limits takes effect as an activation.
    pub fn put_rule(&self, caller: &Caller, name: &str, manifest: &Manifest) -> Answer<Put<Rule>> {
        self.changing_in(caller, Operation::RULE_PUT, name, |deed, tenant| {
            super::check_name("rule", name)?;
            let checked = CheckedManifest::new(name, manifest, &self.quotas_of(tenant), self.tuning.private_webhooks)?;
            let lock = tenant.lock()?;
            let (rule, is_new) = match tenant.rule(name) {
                Ok(rule) => {
                    self.change_rule(deed, tenant, &rule, manifest, checked, lock)?;
                    (rule, false)
                }
                Err(_) => (self.make_rule(deed, tenant, name, manifest, checked)?, true),
            };
            Ok(Put { value: self.show_rule(&rule), is_new })
        })
    }

    /// The rules of the caller's tenant, in the order of their names.
    pub fn rules(&self, caller: &Caller) -> Answer<Vec<Rule>> {
        let tenant = self.looking(caller, Operation::RULE_LIST)?;
        Ok(tenant.all_rules().iter().map(|rule| self.show_rule(rule)).collect())
    }

    /// A rule.
    pub fn rule(&self, caller: &Caller, name: &str) -> Answer<Rule> {
        let tenant = self.looking(caller, Operation::RULE_READ)?;
        Ok(self.show_rule(&*tenant.rule(name)?))
    }

    /// Deletes a rule: at once, or when it has finished what it has.
    pub fn delete_rule(&self, caller: &Caller, name: &str, delete: &DeleteRule) -> Answer<()> {
        self.changing_in(caller, Operation::RULE_DELETE, name, |deed, tenant| {
            let lock = tenant.lock()?;
            let rule = tenant.rule(name)?;
            let _rule_lock = rule.lock()?;
            let Some(time) = &delete.drain else {
                let line = deed.line(json!({ "drain": false, "keys": rule.keys() }));
                self.forget_rule(tenant, &rule, line)?;
                return Ok(());
            };
            drop(lock);
            not_draining(&rule)?;
            let until = later(deed.time, parsed("drain", time)?);
            let draining = Draining { ends: self.ends(tenant, &rule)?, until };
            let text = to_json(&draining)?;
            self.catalogue.change(|change| {
                change.set_draining(&rule.id, &text)?;
                change.record(deed.line(json!({ "drain": true, "until": until.to_string() })));
                Ok(())
            })?;
            rule.known_mut().draining = Some(draining.clone());
            if let Some(runner) = rule.runner() {
                runner.drain(super::running::in_order(&rule.known().checked, &draining.ends));
            }
            self.sweeper.wake();
            Ok(())
        })
    }

    /// Stops a rule at a batch boundary. It keeps its state and its place in its inputs.
    pub fn pause(&self, caller: &Caller, name: &str) -> Answer<Rule> {
        self.changing_in(caller, Operation::RULE_PAUSE, name, |deed, tenant| {
            let rule = tenant.rule(name)?;
            let _lock = rule.lock()?;
            let runner = self.runner_of(&rule)?;
            let stopped = Stopped::Paused { by: deed.by().to_owned() };
            let text = to_json(&stopped)?;
            self.catalogue.change(|change| {
                change.set_paused(&rule.id, Some(&text))?;
                change.record(deed.line(serde_json::Value::Null));
                Ok(())
            })?;
            rule.known_mut().stopped = Some(stopped);
            runner.pause(deed.by());
            Ok(self.show_rule(&rule))
        })
    }

    /// Lets a rule go on that was paused or is quarantined.
    pub fn resume(&self, caller: &Caller, name: &str) -> Answer<Rule> {
        self.changing_in(caller, Operation::RULE_RESUME, name, |deed, tenant| {
            let rule = tenant.rule(name)?;
            let _lock = rule.lock()?;
            if rule.known().active.is_some() && rule.runner().is_none() {
                self.start_rule(tenant, &rule);
            }
            let runner = self.runner_of(&rule)?;
            self.catalogue.change(|change| {
                change.set_paused(&rule.id, None)?;
                change.set_quarantined(&rule.id, None)?;
                change.record(deed.line(serde_json::Value::Null));
                Ok(())
            })?;
            rule.known_mut().stopped = None;
            runner.resume();
            Ok(self.show_rule(&rule))
        })
    }

    fn make_rule(
        &self,
        deed: &Deed<'_>,
        tenant: &Arc<TenantEntry>,
        name: &str,
        manifest: &Manifest,
        checked: CheckedManifest,
    ) -> Answer<Arc<RuleEntry>> {
        // Looked at before a stream is made for its outputs; counted again with the row.
        let limit = self.quotas_of(tenant).rules;
        quota::within("rules", limit, tenant.all_rules().len() as u64 + 1)?;
        let (uses, starts) = self.bind(deed, tenant, &checked, &Starts::new())?;
        let id = RuleId::new();
        let row = RuleRow {
            id: id.clone(),
            tenant: tenant.id.clone(),
            name: name.to_owned(),
            created: deed.time,
            manifest: to_json(manifest)?,
            starts: to_json(&starts)?,
            paused: None,
            quarantined: None,
            parked: None,
            draining: None,
        };
        let path = path_of(&tenant.id, &id);
        self.make_folder(&path)?;
        self.catalogue
            .change(|change| {
                quota::within("rules", limit, change.count_rules(&tenant.id)? + 1)?;
                change.add_rule(&row)?;
                change.set_references(&id, &uses)?;
                change.record(deed.line(json!({ "manifest": manifest })));
                Ok(())
            })
            .inspect_err(|_| self.unmake_folder(&path))?;
        let known = Known {
            manifest: manifest.clone(),
            checked: Arc::new(checked),
            starts,
            uses,
            active: None,
            stopped: None,
            parked: None,
            draining: None,
        };
        let rule = Arc::new(RuleEntry::new(&self.data, &tenant.id, id, name.to_owned(), deed.time, known));
        self.records.add(tenant, &rule);
        tenant.rules.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&rule));
        Ok(rule)
    }

    fn change_rule(
        &self,
        deed: &Deed<'_>,
        tenant: &Arc<TenantEntry>,
        rule: &Arc<RuleEntry>,
        manifest: &Manifest,
        checked: CheckedManifest,
        tenant_lock: MutexGuard<'_, IsGone>,
    ) -> Answer<()> {
        let _lock = rule.lock()?;
        not_draining(rule)?;
        let (before, old, starts, active) = {
            let known = rule.known();
            (known.manifest.clone(), Arc::clone(&known.checked), known.starts.clone(), known.active.clone())
        };
        if before == *manifest {
            return Ok(());
        }
        let starts = match active {
            // What has not run yet may begin elsewhere.
            None => Starts::new(),
            Some(_) => {
                checked.check_change(&old)?;
                starts
            }
        };
        let is_activation = active.is_some() && (checked.parameters != old.parameters || checked.limits != old.limits);
        let version = match (&active, is_activation) {
            (Some(active), true) => {
                let component = self.component(tenant, &active.digest)?;
                let (parameters, limits) = (checked.parameters.clone(), checked.limits.clone());
                let version = RuleVersion { component, parameters, limits };
                self.check_parameters(tenant, &version)?;
                Some(version)
            }
            _ => None,
        };
        let (uses, starts) = self.bind(deed, tenant, &checked, &starts)?;
        let (text, starts_text) = (to_json(manifest)?, to_json(&starts)?);
        self.catalogue.change(|change| {
            change.set_manifest(&rule.id, &text, &starts_text)?;
            change.set_references(&rule.id, &uses)?;
            change.record(deed.line(json!({ "manifest": manifest })));
            Ok(())
        })?;
        {
            let mut known = rule.known_mut();
            (known.manifest, known.checked) = (manifest.clone(), Arc::new(checked));
            (known.starts, known.uses) = (starts, uses);
        }
        // A rule may take its time to stop. Others of the tenant need not wait for it.
        drop(tenant_lock);
        if active.is_none() {
            return Ok(());
        }
        // What a runner is made of does not change while it lives.
        rule.stop();
        self.start_rule(tenant, rule);
        let Some(version) = version else { return Ok(()) };
        let wanted =
            Wanted { version, declared: Declared::of(manifest), state: StateChoice::Keep, sets_manifest: false };
        match self.take_effect(deed, tenant, rule, wanted) {
            Ok(_) => Ok(()),
            Err(error) => {
                // The manifest says what runs: parameters that cannot run are not in it.
                let declared = to_json(&Declared::of(&before))?;
                self.catalogue.change(|change| rule.declare(change, &declared))?;
                Err(error)
            }
        }
    }

    /// Finds the streams of a rule, makes the one for its outputs, and says where it begins in its inputs.
    fn bind(
        &self,
        deed: &Deed<'_>,
        tenant: &Arc<TenantEntry>,
        checked: &CheckedManifest,
        known: &Starts,
    ) -> Answer<(Vec<(Use, StreamId)>, Starts)> {
        let mut uses = Vec::new();
        let mut starts = Starts::new();
        for input in &checked.inputs {
            let stream = tenant.stream(&input.stream).map_err(|_| {
                let field = format!("inputs.{}.stream", input.name);
                ServiceError::invalid_field(field, format!("there is no stream {}: make it first", input.stream))
            })?;
            if let CheckedOutput::Stream(output) = &checked.output
                && *output == input.stream
            {
                let message = "the rule would read its own outputs, for ever";
                return Err(ServiceError::invalid_field("output.stream", message));
            }
            let start = match known.get(&input.name) {
                Some(start) => start.clone(),
                None => self.start_of(&stream, input.from)?,
            };
            starts.insert(input.name.clone(), start);
            uses.push((Use::Input(input.name.clone()), stream.id.clone()));
        }
        if let CheckedOutput::Stream(name) = &checked.output {
            let stream = match tenant.stream(name) {
                Ok(stream) => stream,
                Err(_) => self.make_stream(deed, tenant, name, &StreamSettings::default())?,
            };
            uses.push((Use::Outputs, stream.id.clone()));
        }
        Ok((uses, starts))
    }

    fn start_of(&self, stream: &StreamEntry, from: model::From) -> Result<Vec<Position>> {
        let log = self.log_of(stream)?;
        Ok(match from {
            model::From::Earliest => vec![Position::default(); log.partitions() as usize],
            model::From::Latest => log.ends(),
        })
    }

    /// Where the inputs of a rule end now.
    fn ends(&self, tenant: &TenantEntry, rule: &RuleEntry) -> Result<Starts> {
        let names: Vec<String> = rule.known().checked.inputs.iter().map(|input| input.name.clone()).collect();
        let mut ends = Starts::new();
        for (name, id) in names.into_iter().zip(rule.input_streams()) {
            if let Some(stream) = tenant.stream_with_id(&id) {
                ends.insert(name, self.log_of(&stream)?.ends());
            }
        }
        Ok(ends)
    }

    /// Deletes a rule with all it has. The tenant is locked.
    pub(super) fn forget_rule(&self, tenant: &Arc<TenantEntry>, rule: &Arc<RuleEntry>, line: NewLine) -> Result<()> {
        rule.stop();
        let forgotten = self.catalogue.change(|change| {
            let before = change.components_of(&tenant.id)?;
            change.forget_rule(&rule.id)?;
            change.add_removal(&rule.path)?;
            // Components that no other rule of the tenant has.
            let after = change.components_of(&tenant.id)?;
            let gone = before.into_iter().filter(|component| !after.contains(component));
            let gone: Vec<String> = gone.map(|(digest, _)| tenant.component_path(&digest)).collect();
            gone.iter().try_for_each(|path| change.add_removal(path))?;
            change.record(line);
            Ok(gone)
        });
        let gone = forgotten.inspect_err(|_| self.start_rule(tenant, rule))?;
        tenant.rules.write().unwrap_or_else(PoisonError::into_inner).remove(&rule.name);
        self.records.remove(rule);
        fault::point("service-deleted");
        gone.iter().for_each(|path| self.remove(path));
        self.remove(&rule.path);
        Ok(())
    }

    pub(super) fn show_rule(&self, rule: &RuleEntry) -> Rule {
        let status = rule.status();
        let shown = status_of(rule, status.as_ref());
        let known = rule.known();
        let active = known.active.as_ref();
        Rule {
            name: rule.name.clone(),
            created: rule.created.to_string(),
            manifest: known.manifest.clone(),
            status: shown,
            active: active.map(|active| VersionName { version: active.version.clone(), digest: active.digest.clone() }),
        }
    }
}

/// What a rule does, for people.
pub(super) fn status_of(rule: &RuleEntry, status: Option<&RunnerStatus>) -> RuleStatus {
    let mut shown = RuleStatus {
        state: RuleState::New,
        reason: rule.broken(),
        since: None,
        batch: None,
        keys: rule.keys(),
        lag: 0,
        rows_left: 0,
        next_due: None,
    };
    if let Some(status) = status {
        (shown.state, shown.reason) = match &status.state {
            RunnerState::Running | RunnerState::Parked | RunnerState::Stopped => (RuleState::Running, None),
            RunnerState::Paused { by } => (RuleState::Paused, Some(format!("paused by {by}"))),
            RunnerState::Quarantined { reason } => (RuleState::Quarantined, Some(reason.clone())),
            RunnerState::Held { quota } => (RuleState::Held, Some(format!("the quota {quota} is used up"))),
            // Where the server keeps its files is not the tenant's business.
            RunnerState::Failed { error, .. } => {
                (RuleState::Failed, Some(error.replace(&*rule.folder.to_string_lossy(), "RULE")))
            }
        };
        shown.since = Some(status.since.to_string());
        shown.batch = status.last_batch;
        shown.lag = status.lag;
        shown.rows_left = status.rows_left;
        shown.next_due = status.next_due;
    } else if shown.reason.is_some() {
        shown.state = RuleState::Failed;
    }
    if rule.known().draining.is_some() {
        shown.state = RuleState::Draining;
    }
    shown
}

fn to_json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(value)?)
}
