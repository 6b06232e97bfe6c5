//! Activations: another version runs, or the one before, or the same one with other parameters.
//!
//! An activation is written down as wanted before the rule is asked, and as taken with its batch afterwards. A rule that takes an
//! activation has it in its own plan log before it says so. When the process ends in between, the next start asks the plan log: what
//! it has is noted here, and what it has not is asked for again. So an activation takes effect once, and none is forgotten.

use super::deed::Deed;
use super::model::{Activate, ActivationRecord, Rollback, VersionName};
use super::records::{state_of, word_of};
use super::registry::TenantEntry;
use super::rule_entry::{Active, Declared, RuleEntry};
use super::{Answer, Caller, Operation, Service, ServiceError};
use crate::event::BatchId;
use crate::fault;
use crate::generation::Generation;
use crate::host::{StateChoice, Swapped};
use crate::runner::{RuleVersion, Stopped};
use crate::state::PlanLog;
use crate::state::catalogue::{ActivationRow, ActivationStatus, CheckStatus, NewActivation, VersionRow};
use anyhow::{Context, Result};
use serde_json::json;
use std::sync::Arc;

/// What is to run, and what becomes of the states.
pub(super) struct Wanted {
    pub version: RuleVersion,
    /// Parameters and limits as the manifest has them, or had them.
    pub declared: Declared,
    pub state: StateChoice,
    /// Whether the manifest goes back to what is declared.
    pub sets_manifest: bool,
}

impl Service {
    /// Lets another version run. Returns when it does.
    pub fn activate(&self, caller: &Caller, rule: &str, activate: &Activate) -> Answer<ActivationRecord> {
        self.changing_in(caller, Operation::RULE_ACTIVATE, rule, |deed, tenant| {
            let rule = tenant.rule(rule)?;
            let _lock = rule.lock()?;
            not_draining(&rule)?;
            let row = self.find_version(&rule, &activate.version)?;
            let state = chosen(&rule, activate.state)?;
            let (checked, declared) = {
                let known = rule.known();
                (Arc::clone(&known.checked), Declared::of(&known.manifest))
            };
            let component = self.ready(tenant, &row)?;
            let version =
                RuleVersion { component, parameters: checked.parameters.clone(), limits: checked.limits.clone() };
            self.check_parameters(tenant, &version)?;
            self.take_effect(deed, tenant, &rule, Wanted { version, declared, state, sets_manifest: false })
        })
    }

    /// Lets the version before run again, with the parameters and limits that it had.
    pub fn rollback(&self, caller: &Caller, rule: &str, rollback: &Rollback) -> Answer<ActivationRecord> {
        self.changing_in(caller, Operation::RULE_ROLLBACK, rule, |deed, tenant| {
            let rule = tenant.rule(rule)?;
            let _lock = rule.lock()?;
            not_draining(&rule)?;
            let state = chosen(&rule, rollback.state)?;
            let rows = self.catalogue.look(|look| look.activations(&rule.id))?;
            let row = rows.iter().filter(|row| row.took_effect()).nth(1);
            let row = row.ok_or_else(|| {
                ServiceError::conflict(
                    "nothing-before",
                    "no version ran before this one: there is nothing to go back to",
                )
            })?;
            let version = self.version_of(tenant, row)?;
            let declared = serde_json::from_str(&row.asked.declared).map_err(anyhow::Error::from)?;
            self.take_effect(deed, tenant, &rule, Wanted { version, declared, state, sets_manifest: true })
        })
    }

    /// What ran when, newest first.
    pub fn activations(&self, caller: &Caller, rule: &str) -> Answer<Vec<ActivationRecord>> {
        let tenant = self.looking(caller, Operation::ACTIVATION_LIST)?;
        let rule = tenant.rule(rule)?;
        let rows = self.catalogue.look(|look| look.activations(&rule.id))?;
        Ok(rows.iter().map(|row| shown(row, &rows)).collect())
    }

    /// Lets something run: wanted, taken, noted. The rule is locked.
    pub(super) fn take_effect(
        &self,
        deed: &Deed<'_>,
        tenant: &Arc<TenantEntry>,
        rule: &Arc<RuleEntry>,
        wanted: Wanted,
    ) -> Answer<ActivationRecord> {
        let Wanted { version, declared, state, sets_manifest } = wanted;
        let before = rule.known().active.clone();
        if before.is_some() && rule.runner().is_none() {
            // It could not be started: perhaps it can now. A version over states that nobody has looked at would be worse.
            self.try_start_rule(tenant, rule).map_err(|error| self.refused("rule-broken", &error))?;
        }
        let new = NewActivation {
            rule: rule.id.clone(),
            time: deed.time,
            by: Some(deed.by().to_owned()),
            digest: version.digest().to_owned(),
            version: version.label().to_owned(),
            from: before.as_ref().map(|active| active.digest.clone()),
            parameters: version.parameters.to_string(),
            limits: serde_json::to_string(&version.limits).map_err(anyhow::Error::from)?,
            declared: serde_json::to_string(&declared).map_err(anyhow::Error::from)?,
            state: word_of(state).to_owned(),
            reason: None,
        };
        let details = json!({ "from": new.from, "state": new.state, "version": new.version });
        let id = self.catalogue.change(|change| {
            let id = change.add_activation(&new)?;
            change.record(deed.accepted(version.digest(), details.clone()));
            Ok(id)
        })?;
        fault::point("activation-wanted");
        let swapped = self.swap(tenant, rule, version, state);
        fault::point("activation-taken");
        match swapped {
            Ok(swapped) => {
                let active = Active { id, digest: new.digest.clone(), version: new.version.clone() };
                self.took_effect(rule, active, swapped, |change| {
                    if sets_manifest {
                        rule.declare(change, &new.declared)?;
                    }
                    change.record(deed.line_of(&new.digest, json!({ "batch": swapped.batch })));
                    Ok(())
                })?;
                let rows = self.catalogue.look(|look| look.activations(&rule.id))?;
                let row = rows.iter().find(|row| row.id == id).context("the activation was noted just now")?;
                Ok(shown(row, &rows))
            }
            Err(error) => {
                let error = self.refused("activation-refused", &error);
                self.catalogue.change(|change| change.activation_failed(id, &error.message))?;
                Err(error)
            }
        }
    }

    /// Notes that an activation took effect, with what belongs to that.
    fn took_effect(
        &self,
        rule: &RuleEntry,
        active: Active,
        swapped: Swapped,
        with: impl FnOnce(&crate::state::catalogue::Change<'_>) -> Result<()>,
    ) -> Result<()> {
        self.catalogue.change(|change| {
            change.activation_took_effect(active.id, swapped.batch, swapped.generation.0)?;
            // Another version may do what the one before could not.
            change.set_quarantined(&rule.id, None)?;
            with(change)
        })?;
        let mut known = rule.known_mut();
        known.active = Some(active);
        known.stopped = known.stopped.take().filter(|stopped| matches!(stopped, Stopped::Paused { .. }));
        Ok(())
    }

    fn swap(
        &self,
        tenant: &Arc<TenantEntry>,
        rule: &Arc<RuleEntry>,
        version: RuleVersion,
        state: StateChoice,
    ) -> Result<Swapped> {
        match rule.runner() {
            Some(runner) => runner.activate(version.activation(state)),
            None => {
                self.run_version(tenant, rule, version, None)?;
                Ok(Swapped { batch: BatchId(0), generation: Generation::default(), rows_left: 0 })
            }
        }
    }

    /// At the start: an activation that was wanted when the process ended. Is it in the rule's plan log, it is noted; else it is returned,
    /// to be asked for again when the rule runs.
    pub(super) fn finish_activation(
        &self,
        tenant: &Arc<TenantEntry>,
        rule: &Arc<RuleEntry>,
    ) -> Result<Option<ActivationRow>> {
        let rows = self.catalogue.look(|look| look.activations(&rule.id))?;
        let Some(wanted) = rows.iter().find(|row| row.status == ActivationStatus::Wanted) else { return Ok(None) };
        let swapped = match rows.iter().find(|row| row.took_effect()) {
            // The first one takes effect by being there.
            None => Some(Swapped { batch: BatchId(0), generation: Generation::default(), rows_left: 0 }),
            Some(before) => taken(rule, before, wanted, state_of(&wanted.asked.state))?,
        };
        match swapped {
            Some(swapped) => self.note_finished(tenant, rule, wanted, swapped).map(|()| None),
            None => Ok(Some(wanted.clone())),
        }
    }

    /// Asks for an activation again, on a thread of its own: the rule may take its time.
    pub(super) fn ask_later(
        self: &Arc<Self>,
        tenant: &Arc<TenantEntry>,
        rule: &Arc<RuleEntry>,
        wanted: ActivationRow,
    ) -> Result<()> {
        let (service, tenant, rule) = (Arc::downgrade(self), Arc::clone(tenant), Arc::clone(rule));
        let ask = move || {
            let Some(service) = service.upgrade() else { return };
            let _lock = rule.wait_for_lock();
            if let Err(error) = service.ask_again(&tenant, &rule, &wanted) {
                tracing::error!("an activation of {}/{} cannot be finished: {error:#}", tenant.name, rule.name);
            }
        };
        std::thread::Builder::new().name("activation".to_owned()).spawn(ask)?;
        Ok(())
    }

    fn ask_again(&self, tenant: &Arc<TenantEntry>, rule: &Arc<RuleEntry>, wanted: &ActivationRow) -> Result<()> {
        let state = state_of(&wanted.asked.state);
        let swapped = self.version_of(tenant, wanted).and_then(|version| {
            let runner = rule.runner().context("the version before cannot be started")?;
            runner.activate(version.activation(state))
        });
        match swapped {
            Ok(swapped) => self.note_finished(tenant, rule, wanted, swapped),
            // It is asked for again at the next start.
            Err(_) if !self.is_ready() => Ok(()),
            Err(error) => {
                let error = self.refused("activation-refused", &error);
                let line = self.own_line_of(tenant, "rule.activate", &rule.name, &wanted.asked.digest, error.code);
                self.catalogue.change(|change| {
                    change.activation_failed(wanted.id, &error.message)?;
                    change.record(line);
                    Ok(())
                })
            }
        }
    }

    fn note_finished(
        &self,
        tenant: &TenantEntry,
        rule: &RuleEntry,
        wanted: &ActivationRow,
        swapped: Swapped,
    ) -> Result<()> {
        let line = self.own_line_of(tenant, "rule.activate", &rule.name, &wanted.asked.digest, "done");
        self.took_effect(rule, Active::of(wanted), swapped, |change| {
            rule.declare(change, &wanted.asked.declared)?;
            change.record(line);
            Ok(())
        })
    }

    /// A version of a rule that may be activated.
    fn ready(&self, tenant: &TenantEntry, row: &VersionRow) -> Answer<Arc<crate::wasm::Component>> {
        match row.status {
            CheckStatus::Ready => Ok(self.component(tenant, &row.digest)?),
            CheckStatus::Checking => {
                let message = "the checks of the version have not ended: wait until its status is ready";
                Err(ServiceError::conflict("version-checking", message))
            }
            CheckStatus::Refused => {
                let reason = row.reason.as_deref().unwrap_or("its checks failed");
                Err(ServiceError::conflict("version-refused", format!("the version was refused: {reason}")))
            }
        }
    }

    pub(super) fn check_parameters(&self, tenant: &TenantEntry, version: &RuleVersion) -> Answer<()> {
        let parameters = version.parameters.to_string();
        let checked = self.loader_of(tenant)?.check_parameters(&version.component, parameters.as_bytes());
        checked.map_err(|error| ServiceError::invalid_field("parameters", format!("{error:#}")))
    }

    /// A refusal that comes from the rule or its host: said as it is, but for where the server keeps its files.
    pub(super) fn refused(&self, code: &'static str, error: &anyhow::Error) -> ServiceError {
        tracing::warn!("{code}: {error:#}");
        let message = format!("{error:#}").replace(&*self.data.to_string_lossy(), "DATA");
        ServiceError::conflict(code, message)
    }
}

/// Whether the rule's plan log has a wanted activation: then, from which batch on.
fn taken(
    rule: &RuleEntry,
    before: &ActivationRow,
    wanted: &ActivationRow,
    state: StateChoice,
) -> Result<Option<Swapped>> {
    // Keeping twice is keeping once.
    if state == StateChoice::Keep {
        return Ok(None);
    }
    let Some(known) = PlanLog::running(&rule.folder)? else { return Ok(None) };
    let is_taken = known.digest == wanted.asked.digest && Some(known.generation.0) != before.generation;
    Ok(is_taken.then_some(Swapped { batch: known.since, generation: known.generation, rows_left: 0 }))
}

/// The state choice. With states it must be made: each of them can be wrong.
fn chosen(rule: &RuleEntry, state: Option<StateChoice>) -> Answer<StateChoice> {
    match state {
        Some(state) => Ok(state),
        None if rule.known().active.is_none() => Ok(StateChoice::Keep),
        None => {
            let message = "say what becomes of the states that are there: keep, migrate, fresh or drain";
            Err(ServiceError::invalid_field("state", message))
        }
    }
}

pub(super) fn not_draining(rule: &RuleEntry) -> Answer<()> {
    match rule.known().draining {
        Some(_) => Err(ServiceError::conflict("rule-draining", "the rule is being deleted, and finishes what it has")),
        None => Ok(()),
    }
}

fn shown(row: &ActivationRow, all: &[ActivationRow]) -> ActivationRecord {
    let asked = &row.asked;
    // What ran before has an activation of its own, which has its name.
    let before = asked.from.as_ref().map(|digest| {
        let found = all.iter().find(|other| other.id < row.id && other.asked.digest == *digest);
        VersionName {
            version: found.map_or_else(String::new, |other| other.asked.version.clone()),
            digest: digest.clone(),
        }
    });
    ActivationRecord {
        time: asked.time.to_string(),
        by: asked.by.clone(),
        to: VersionName { version: asked.version.clone(), digest: asked.digest.clone() },
        from: before,
        state: state_of(&asked.state),
        batch: row.batch,
        reason: asked.reason.clone(),
    }
}
