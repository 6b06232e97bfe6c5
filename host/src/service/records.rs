//! [`Records`]: what runners tell is noted in the catalogue.

use super::audit::host_line;
use super::registry::TenantEntry;
use super::rule_entry::{Active, RuleEntry};
use super::sweep::Sweeper;
use crate::clock::Clock;
use crate::event::Millis;
use crate::host::StateChoice;
use crate::runner::{Parked, RolledBack, RunnerEvents, Stopped};
use crate::state::catalogue::{Catalogue, NewActivation, NewLine, TenantId};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// What runners tell is noted in the catalogue.
pub(super) struct Records {
    catalogue: Arc<Catalogue>,
    clock: Clock,
    sweeper: Arc<Sweeper>,
    rules: RwLock<HashMap<String, Recorded>>,
}

#[derive(Clone)]
struct Recorded {
    rule: Weak<RuleEntry>,
    tenant: (TenantId, String),
}

impl Records {
    pub(super) fn new(catalogue: Arc<Catalogue>, clock: Clock, sweeper: Arc<Sweeper>) -> Self {
        Records { catalogue, clock, sweeper, rules: RwLock::default() }
    }

    /// From now on, what its runner tells is noted.
    pub(super) fn add(&self, tenant: &TenantEntry, rule: &Arc<RuleEntry>) {
        let recorded = Recorded { rule: Arc::downgrade(rule), tenant: (tenant.id.clone(), tenant.name.clone()) };
        self.rules.write().unwrap_or_else(PoisonError::into_inner).insert(rule.id.to_string(), recorded);
    }

    /// It is gone.
    pub(super) fn remove(&self, rule: &RuleEntry) {
        self.rules.write().unwrap_or_else(PoisonError::into_inner).remove(rule.id.as_str());
    }

    fn find(&self, rule: &str) -> Option<(Arc<RuleEntry>, (TenantId, String))> {
        let recorded = self.rules.read().unwrap_or_else(PoisonError::into_inner).get(rule).cloned()?;
        Some((recorded.rule.upgrade()?, recorded.tenant))
    }

    fn line(
        &self,
        tenant: (TenantId, String),
        action: &str,
        rule: &RuleEntry,
        digest: &str,
        details: Value,
    ) -> NewLine {
        host_line(&self.clock, Some(tenant), action, &rule.name, Some(digest), details)
    }

    fn note_roll_back(&self, rule: &RuleEntry, tenant: (TenantId, String), back: &RolledBack) -> Result<()> {
        let word = word_of(back.state);
        let RolledBack { from, to, swapped, reason, .. } = back;
        let details = json!({ "from": from.digest(), "state": word, "batch": swapped.batch, "reason": reason });
        let line = self.line(tenant, "rule.rollback", rule, to.digest(), details);
        let id = self.catalogue.change(|change| {
            // What was declared when it ran before: the manifest goes back with it.
            let rows = change.activations(&rule.id)?;
            let (parameters, limits) = (to.parameters.to_string(), serde_json::to_string(&to.limits)?);
            let before = rows.iter().find(|row| {
                row.took_effect()
                    && row.asked.digest == to.digest()
                    && row.asked.parameters == parameters
                    && row.asked.limits == limits
            });
            let declared = before.map_or_else(|| "{}".to_owned(), |row| row.asked.declared.clone());
            let id = change.add_activation(&NewActivation {
                rule: rule.id.clone(),
                time: self.clock.now(),
                by: None,
                digest: to.digest().to_owned(),
                version: to.label().to_owned(),
                from: Some(from.digest().to_owned()),
                parameters,
                limits,
                declared: declared.clone(),
                state: word.to_owned(),
                reason: Some(reason.clone()),
            })?;
            change.activation_took_effect(id, swapped.batch, swapped.generation.0)?;
            // It goes back no further by itself.
            change.activation_is_proven(id)?;
            rule.declare(change, &declared)?;
            change.record(line);
            Ok(id)
        })?;
        let active = Active { id, digest: to.digest().to_owned(), version: to.label().to_owned() };
        rule.known_mut().active = Some(active);
        Ok(())
    }
}

impl RunnerEvents for Records {
    fn parked(&self, rule: &str, parked: Option<&Parked>) -> Result<()> {
        let (rule, _) = self.find(rule).context("the rule is gone")?;
        if rule.known().parked.as_ref() == parked {
            return Ok(());
        }
        let text = parked.map(serde_json::to_string).transpose()?;
        self.catalogue.change(|change| change.set_parked(&rule.id, text.as_deref()))?;
        rule.known_mut().parked = parked.cloned();
        self.sweeper.wake();
        Ok(())
    }

    fn quarantined(&self, rule: &str, reason: &str, since: Millis) {
        let Some((rule, tenant)) = self.find(rule) else { return };
        let stopped = Stopped::Quarantined { reason: reason.to_owned(), since };
        let digest = rule.known().active.as_ref().map(|active| active.digest.clone()).unwrap_or_default();
        let line = self.line(tenant, "rule.quarantine", &rule, &digest, json!({ "reason": reason }));
        let noted = serde_json::to_string(&stopped).map_err(anyhow::Error::from).and_then(|text| {
            self.catalogue.change(|change| {
                change.set_quarantined(&rule.id, Some(&text))?;
                change.record(line);
                Ok(())
            })
        });
        rule.known_mut().stopped = Some(stopped);
        tell(&rule, "that it is quarantined", noted);
    }

    fn rolled_back(&self, rule: &str, rolled_back: &RolledBack) {
        let Some((rule, tenant)) = self.find(rule) else { return };
        let noted = self.note_roll_back(&rule, tenant, rolled_back);
        tell(&rule, "that it was rolled back", noted);
    }

    fn proven(&self, rule: &str) {
        let Some((rule, _)) = self.find(rule) else { return };
        let Some(active) = rule.known().active.clone() else { return };
        let noted = self.catalogue.change(|change| change.activation_is_proven(active.id));
        tell(&rule, "that its version has proven itself", noted);
    }

    fn drained(&self, rule: &str) {
        // Whoever deletes it waits for its runner, which tells this: another thread does it.
        if let Some((rule, _)) = self.find(rule) {
            rule.set_drained();
            self.sweeper.wake();
        }
    }
}

/// A runner has nobody to tell that something was not noted. The rule goes on with what is so.
fn tell(rule: &RuleEntry, what: &str, noted: Result<()>) {
    if let Err(error) = noted {
        tracing::error!("of the rule {} it was not noted {what}: {error:#}", rule.name);
    }
}

/// A state choice as it is written.
pub(super) fn word_of(state: StateChoice) -> &'static str {
    match state {
        StateChoice::Keep => "keep",
        StateChoice::Migrate => "migrate",
        StateChoice::Fresh => "fresh",
        StateChoice::Drain => "drain",
    }
}

/// A state choice as it was written.
pub(super) fn state_of(word: &str) -> StateChoice {
    match word {
        "migrate" => StateChoice::Migrate,
        "fresh" => StateChoice::Fresh,
        "drain" => StateChoice::Drain,
        // No other word is ever written.
        _ => StateChoice::Keep,
    }
}
