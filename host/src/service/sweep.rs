//! [`Sweeper`]: what is done beside requests now and then: events that are past their retention go, rules that are drained go, and
//! rules over a quota are held.

use super::Service;
use super::audit::host_line;
use super::registry::TenantEntry;
use super::rule_entry::RuleEntry;
use crate::event::Position;
use crate::runner::RunnerState;
use serde_json::json;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How often is looked while something happens.
const EVERY: Duration = Duration::from_secs(3);
/// How often is looked while nothing does: events grow old by themselves.
const EVERY_QUIET: Duration = Duration::from_secs(60);

/// This part of the quota of bytes in streams is for outputs alone.
const OUTPUTS_ABOVE_QUOTA: u64 = 10;

/// When is looked.
#[derive(Default)]
pub(super) struct Sweeper {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Default)]
struct Asked {
    has_news: bool,
    is_closed: bool,
}

impl Sweeper {
    /// Something happened that is worth a look.
    pub(super) fn wake(&self) {
        // The look comes with the next beat: what happens often is looked at together.
        self.lock().has_news = true;
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Looks until it is closed or the service is gone.
    pub(super) fn run(&self, service: &Weak<Service>) {
        loop {
            let mut waited = Duration::ZERO;
            while waited < EVERY_QUIET {
                let (mut asked, _) =
                    self.changed.wait_timeout(self.lock(), EVERY).unwrap_or_else(PoisonError::into_inner);
                if asked.is_closed {
                    return;
                }
                waited += EVERY;
                if std::mem::take(&mut asked.has_news) {
                    break;
                }
            }
            let Some(service) = service.upgrade() else { return };
            service.sweep();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Does now what is done now and then.
    pub fn sweep(&self) {
        for tenant in self.registry.all() {
            for rule in tenant.all_rules() {
                self.end_when_drained(&tenant, &rule);
            }
            self.retain(&tenant);
            self.hold_over_quota(&tenant);
        }
    }

    /// Deletes events that are past their retention and needed by no rule.
    fn retain(&self, tenant: &TenantEntry) {
        let rules = tenant.all_rules();
        for stream in tenant.all_streams() {
            let settings = stream.settings();
            if settings.retention_age.is_none() && settings.retention_bytes.is_none() {
                continue;
            }
            let needed: Vec<(String, Vec<Position>)> = rules
                .iter()
                .flat_map(|rule| {
                    let inputs = rule.input_streams().into_iter().zip(rule.needed());
                    inputs
                        .filter(|(id, _)| *id == stream.id)
                        .map(|(_, needed)| (rule.name.clone(), needed))
                        .collect::<Vec<_>>()
                })
                .collect();
            match self.log_of(&stream).and_then(|log| log.retain(&needed)) {
                Ok(retained) => {
                    let mut names: Vec<String> = retained.held.into_iter().map(|held| held.by).collect();
                    names.dedup();
                    stream.set_held_by(names);
                }
                Err(error) => {
                    tracing::error!("{}/{}: old events were not deleted: {error:#}", tenant.name, stream.name)
                }
            }
        }
    }

    /// Holds the rules of a tenant whose states or streams are over a quota, and lets them go on when they are not.
    fn hold_over_quota(&self, tenant: &TenantEntry) {
        let rules = tenant.all_rules();
        let quotas = self.quotas_of(tenant);
        let keys: u64 = rules.iter().map(|rule| rule.keys()).sum();
        let bytes: u64 = rules
            .iter()
            .map(|rule| match rule.status().map(|status| status.state) {
                // What is closed does not grow.
                Some(RunnerState::Parked) if rule.state_bytes() > 0 => rule.state_bytes(),
                _ => rule.count_bytes(),
            })
            .sum();
        let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used > limit);
        // At the quota no more events are taken. A little above it rules may still go on and read what is there, so that it can be deleted.
        let stream_bytes = quotas.stream_bytes.map(|bytes| bytes.saturating_add(bytes / OUTPUTS_ABOVE_QUOTA));
        let held = [
            ("state_keys", over(quotas.state_keys, keys)),
            ("state_bytes", over(quotas.state_bytes, bytes)),
            ("stream_bytes", over(stream_bytes, tenant.stream_bytes())),
        ];
        let quota = held.into_iter().find(|(_, is_over)| *is_over).map(|(quota, _)| quota);
        rules.iter().filter_map(|rule| rule.runner()).for_each(|runner| runner.hold(quota));
    }

    /// Deletes a rule that has finished what it had, or whose time for that is over.
    fn end_when_drained(&self, tenant: &Arc<TenantEntry>, rule: &Arc<RuleEntry>) {
        let Some(draining) = rule.known().draining.clone() else { return };
        let is_over = self.clock.now() >= draining.until;
        let is_drained = rule.is_drained();
        if !is_over && !is_drained {
            return;
        }
        let (keys, details) = (rule.keys(), json!({ "drained": is_drained, "keys_left": rule.keys() }));
        let owner = (tenant.id.clone(), tenant.name.clone());
        let line = host_line(&self.clock, Some(owner), "rule.delete", &rule.name, None, details);
        let Ok(lock) = tenant.lock() else { return };
        if let Err(error) = self.forget_rule(tenant, rule, line) {
            tracing::error!("{}/{} with {keys} keys was not deleted: {error:#}", tenant.name, rule.name);
        }
        drop(lock);
    }
}
