//! The catalogue: what the service knows of tenants, tokens, streams, rules, versions and activations, and the audit.

mod ids;

pub use ids::{RuleId, StreamId, TenantId, TokenId};
