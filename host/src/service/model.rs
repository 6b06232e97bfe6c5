//! What users send to the service and what it answers, as JSON: names, units and defaults of the public interface.

mod answers;
mod manifest;
mod rules;
mod streams;
mod tenants;

pub use answers::{AuditEntry, Decision, LetterFilter, LettersTaken};
pub use manifest::{BatchManifest, DecideManifest, ErrorPolicy, From, InputManifest, Manifest, OutputManifest};
pub use rules::{
    Activate, ActivationRecord, Rollback, Rule, RuleState, RuleStatus, Version, VersionName, VersionStatus,
    VersionTrial,
};
pub use streams::{Appended, PlacedRange, ReadEvent, Stream, StreamPartition, StreamReader, StreamSettings};
pub use tenants::{NewTenant, NewToken, Quotas, Role, Rotate, Tenant, Token, TokenSecret, Usage, WhoAmI};
