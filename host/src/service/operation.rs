//! [`Operation`]: everything that can be asked of the service, and which roles may. The one table: the service decides by it,
//! the OpenAPI document shows it, and the tests try all of it.

use super::model::Role;
use super::model::Role::{Admin, Author, Operator, Platform, Reader};

/// Something that can be asked of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Its name, such as `rule.activate`: what the audit shows, and what routes are told apart by.
    pub name: &'static str,
    /// Who may.
    pub roles: &'static [Role],
    /// What of it the audit records.
    pub audit: Audited,
}

/// What of an operation the audit records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Audited {
    /// Each time it is done or refused.
    All,
    /// That a role was refused it: events that are taken are too many for the audit.
    Refusals,
    /// Nothing: it only looks.
    Nothing,
}

use Audited::{All, Nothing, Refusals};

const PLATFORM: &[Role] = &[Platform];
const ANYBODY: &[Role] = &[Platform, Admin, Author, Operator, Reader];
const LOOKING: &[Role] = &[Admin, Author, Operator, Reader];
const SENDING: &[Role] = &[Admin, Author, Operator];
const WRITING: &[Role] = &[Admin, Author];
const OPERATING: &[Role] = &[Admin, Operator];
const RECORDS: &[Role] = &[Platform, Admin];

macro_rules! operations {
    ($($constant:ident $name:literal $roles:ident $audit:ident;)*) => {
        impl Operation {
            $(#[doc = concat!("`", $name, "`.")]
            pub const $constant: Operation = Operation { name: $name, roles: $roles, audit: $audit };)*

            /// All of them.
            pub const ALL: &'static [Operation] = &[$(Operation::$constant),*];
        }
    };
}

operations! {
    WHOAMI "whoami" ANYBODY Nothing;
    METRICS "metrics" ANYBODY Nothing;
    AUDIT_READ "audit.read" RECORDS Nothing;
    TENANT_CREATE "tenant.create" PLATFORM All;
    TENANT_LIST "tenant.list" PLATFORM Nothing;
    TENANT_READ "tenant.read" PLATFORM Nothing;
    TENANT_CHANGE "tenant.change" PLATFORM All;
    TENANT_DELETE "tenant.delete" PLATFORM All;
    TENANT_TOKEN_CREATE "tenant.token.create" PLATFORM All;
    TOKEN_CREATE "token.create" RECORDS All;
    TOKEN_LIST "token.list" RECORDS Nothing;
    TOKEN_ROTATE "token.rotate" RECORDS All;
    TOKEN_REVOKE "token.revoke" RECORDS All;
    STREAM_PUT "stream.put" WRITING All;
    STREAM_LIST "stream.list" LOOKING Nothing;
    STREAM_READ "stream.read" LOOKING Nothing;
    STREAM_DELETE "stream.delete" WRITING All;
    EVENTS_APPEND "events.append" SENDING Refusals;
    EVENTS_READ "events.read" LOOKING Nothing;
    RULE_PUT "rule.put" WRITING All;
    RULE_LIST "rule.list" LOOKING Nothing;
    RULE_READ "rule.read" LOOKING Nothing;
    RULE_DELETE "rule.delete" WRITING All;
    VERSION_UPLOAD "version.upload" WRITING All;
    VERSION_LIST "version.list" LOOKING Nothing;
    VERSION_READ "version.read" LOOKING Nothing;
    RULE_ACTIVATE "rule.activate" OPERATING All;
    RULE_ROLLBACK "rule.rollback" OPERATING All;
    RULE_PAUSE "rule.pause" OPERATING All;
    RULE_RESUME "rule.resume" OPERATING All;
    ACTIVATION_LIST "activation.list" LOOKING Nothing;
    RULE_PROGRESS "rule.progress" LOOKING Nothing;
    RULE_LOG "rule.log" LOOKING Nothing;
    RULE_OUTPUTS "rule.outputs" LOOKING Nothing;
    RULE_DECIDE "rule.decide" SENDING Refusals;
    LETTERS_READ "dead-letters.read" LOOKING Nothing;
    LETTERS_PURGE "dead-letters.purge" OPERATING All;
    LETTERS_RE_DRIVE "dead-letters.re-drive" OPERATING All;
    STATE_READ "state.read" LOOKING Nothing;
}

impl Operation {
    /// Whether a role may.
    pub fn allows(self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let names: HashSet<_> = Operation::ALL.iter().map(|operation| operation.name).collect();
        assert_eq!(names.len(), Operation::ALL.len());
    }

    #[test]
    fn who_writes_a_rule_does_not_activate_it_and_the_platform_touches_no_rule() {
        assert!(!Operation::RULE_ACTIVATE.allows(Author) && !Operation::VERSION_UPLOAD.allows(Operator));
        for operation in Operation::ALL {
            let is_of_a_tenant = ["rule.", "stream.", "version.", "events.", "dead-letters.", "state."]
                .iter()
                .any(|word| operation.name.starts_with(word));
            assert!(!is_of_a_tenant || !operation.allows(Platform), "{}", operation.name);
        }
    }
}
