//! The audit, as those see it who may; and what the host writes there by itself.

use super::model::AuditEntry;
use super::registry::TenantEntry;
use super::{Answer, AuditQuery, Caller, EVENTS_DEFAULT, EVENTS_MAX, Operation, Service};
use crate::clock::Clock;
use crate::state::catalogue::{AuditLine, NewLine, TenantId};
use serde_json::Value;

/// Who did what nobody asked for.
pub(super) const HOST: &str = "keyfold";

impl Service {
    /// Lines of the audit: a tenant's admin gets its tenant's, the platform all of them.
    pub fn audit(&self, caller: &Caller, query: AuditQuery) -> Answer<Vec<AuditEntry>> {
        self.allow(caller, Operation::AUDIT_READ, "")?;
        let limit = query.limit.unwrap_or(EVENTS_DEFAULT).clamp(1, EVENTS_MAX);
        // SQLite knows no greater numbers; after the greatest one there is nothing in any case.
        let after = query.after.min(i64::MAX as u64);
        let lines = self.catalogue.look(|look| look.audit(caller.tenant.as_ref(), after, limit))?;
        Ok(lines.into_iter().map(shown).collect())
    }

    /// A line about something that the host does by itself.
    pub(super) fn own_line(&self, action: &str, target: &str, details: Value) -> NewLine {
        host_line(&self.clock, None, action, target, None, details)
    }

    /// A line about something of a tenant's that the host does by itself, and what came of it.
    pub(super) fn own_line_of(
        &self,
        tenant: &TenantEntry,
        action: &str,
        target: &str,
        digest: &str,
        outcome: &str,
    ) -> NewLine {
        let owner = (tenant.id.clone(), tenant.name.clone());
        let line = host_line(&self.clock, Some(owner), action, target, Some(digest), Value::Null);
        NewLine { outcome: outcome.to_owned(), ..line }
    }
}

/// A line about something that the host does by itself.
pub(super) fn host_line(
    clock: &Clock,
    tenant: Option<(TenantId, String)>,
    action: &str,
    target: &str,
    digest: Option<&str>,
    details: Value,
) -> NewLine {
    NewLine {
        time: clock.now(),
        tenant,
        by: HOST.to_owned(),
        role: None,
        action: action.to_owned(),
        target: target.to_owned(),
        digest: digest.map(str::to_owned),
        details,
        outcome: "done".to_owned(),
        request_id: None,
    }
}

fn shown((line, hash): (AuditLine, String)) -> AuditEntry {
    let AuditLine { seq, time, tenant, tenant_id, by, role, action, target, digest, details, outcome, request_id } =
        line;
    let tenant_id = tenant_id.map(|id| id.to_string());
    AuditEntry { seq, time, tenant, tenant_id, by, role, action, target, digest, details, outcome, request_id, hash }
}
