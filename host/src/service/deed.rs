//! [`Deed`]: something that a caller is about to change: whether it may, and what the audit says of it, done or refused.

use super::model::Role;
use super::registry::TenantEntry;
use super::{Answer, Audited, Caller, ErrorKind, Operation, Service, ServiceError};
use crate::event::Millis;
use crate::state::catalogue::{NewLine, TenantId};
use serde_json::Value;
use std::sync::Arc;

/// What is kept of a name that somebody made up: enough to recognise it.
const TARGET_CHARS_MAX: usize = 128;

/// Something that a caller is about to change.
pub(super) struct Deed<'c> {
    caller: &'c Caller,
    operation: Operation,
    target: String,
    /// Whose things it concerns.
    tenant: Option<(TenantId, String)>,
    pub(super) time: Millis,
}

impl Deed<'_> {
    /// The line of the audit that says that it was done.
    pub(super) fn line(&self, details: Value) -> NewLine {
        self.line_with(details, None, "done")
    }

    /// The same, for a deed that concerns a component.
    pub(super) fn line_of(&self, digest: &str, details: Value) -> NewLine {
        self.line_with(details, Some(digest.to_owned()), "done")
    }

    /// The line that says that it was begun: it takes a while, and whether it was done is said by another line.
    pub(super) fn accepted(&self, digest: &str, details: Value) -> NewLine {
        self.line_with(details, Some(digest.to_owned()), "accepted")
    }

    /// The name of the token.
    pub(super) fn by(&self) -> &str {
        &self.caller.name
    }

    fn line_with(&self, details: Value, digest: Option<String>, outcome: &str) -> NewLine {
        NewLine {
            time: self.time,
            tenant: self.tenant.clone(),
            by: self.caller.name.clone(),
            role: Some(word(self.caller.role).to_owned()),
            action: self.operation.name.to_owned(),
            target: self.target.chars().take(TARGET_CHARS_MAX).collect(),
            digest,
            details,
            outcome: outcome.to_owned(),
            request_id: Some(self.caller.request_id.clone()).filter(|id| !id.is_empty()),
        }
    }

    /// It concerns this tenant, and not the caller's.
    pub(super) fn of_tenant(&mut self, tenant: &TenantEntry) {
        self.tenant = Some((tenant.id.clone(), tenant.name.clone()));
    }
}

/// A role as it is written.
pub(super) fn word(role: Role) -> &'static str {
    match role {
        Role::Platform => "platform",
        Role::Admin => "admin",
        Role::Author => "author",
        Role::Operator => "operator",
        Role::Reader => "reader",
    }
}

impl Service {
    /// Whether the caller may look. Returns its tenant.
    pub(super) fn looking(&self, caller: &Caller, operation: Operation) -> Answer<Arc<TenantEntry>> {
        self.allow(caller, operation, "")?;
        self.tenant_of(caller)
    }

    /// Lets the caller change something, if it may. What is refused is written to the audit; what is done is written with the change.
    pub(super) fn changing<T>(
        &self,
        caller: &Caller,
        operation: Operation,
        target: &str,
        change: impl FnOnce(&mut Deed<'_>) -> Answer<T>,
    ) -> Answer<T> {
        self.allow(caller, operation, target)?;
        let mut deed = self.deed(caller, operation, target);
        let done = change(&mut deed);
        if let Err(error) = &done {
            self.record_refusal(&deed, error);
        }
        done
    }

    /// The same for things of a tenant, which it gets.
    pub(super) fn changing_in<T>(
        &self,
        caller: &Caller,
        operation: Operation,
        target: &str,
        change: impl FnOnce(&mut Deed<'_>, &Arc<TenantEntry>) -> Answer<T>,
    ) -> Answer<T> {
        self.changing(caller, operation, target, |deed| {
            let tenant = self.tenant_of(caller)?;
            change(deed, &tenant)
        })
    }

    /// Whether the caller may do this now.
    pub(super) fn allow(&self, caller: &Caller, operation: Operation, target: &str) -> Answer<()> {
        self.check_open()?;
        if !self.secrets.hold(caller) {
            return Err(ServiceError::forbidden("the token has ended"));
        }
        if operation.allows(caller.role) {
            return Ok(());
        }
        let allowed: Vec<&str> = operation.roles.iter().map(|role| word(*role)).collect();
        let error = ServiceError::forbidden(format!(
            "{} is not for the role {}: it needs {}",
            operation.name,
            word(caller.role),
            allowed.join(" or ")
        ));
        if operation.audit != Audited::Nothing {
            self.record_refusal(&self.deed(caller, operation, target), &error);
        }
        Err(error)
    }

    /// The caller's tenant.
    pub(super) fn tenant_of(&self, caller: &Caller) -> Answer<Arc<TenantEntry>> {
        let tenant = caller.tenant.as_ref().and_then(|id| self.registry.tenant(id));
        // Its tokens end with a tenant: this is a request that was under way then.
        tenant.ok_or_else(|| ServiceError::forbidden("the token belongs to no tenant"))
    }

    fn deed<'c>(&self, caller: &'c Caller, operation: Operation, target: &str) -> Deed<'c> {
        let tenant = caller.tenant.as_ref().and_then(|id| self.registry.tenant(id));
        let tenant = tenant.map(|tenant| (tenant.id.clone(), tenant.name.clone()));
        Deed { caller, operation, target: target.to_owned(), tenant, time: self.clock.now() }
    }

    fn record_refusal(&self, deed: &Deed<'_>, error: &ServiceError) {
        // What was asked too often is not written as often.
        if matches!(error.kind, ErrorKind::TooMany { .. }) {
            return;
        }
        let line = deed.line_with(Value::Null, None, error.code);
        if let Err(error) = self.catalogue.record(line) {
            tracing::error!("a refused attempt was not written to the audit: {error:#}");
        }
    }
}
