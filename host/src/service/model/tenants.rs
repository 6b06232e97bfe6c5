//! Tenants, their tokens and their quotas.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a token allows. Each tenant's roles reach its own things only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Makes tenants and gives them tokens; sees no tenant's events, states or rules.
    Platform,
    /// Everything within a tenant.
    Admin,
    /// Streams, rules and versions; sends events. Does not activate: somebody else does.
    Author,
    /// Activates, rolls back, pauses, re-drives, purges; sends events.
    Operator,
    /// Looks.
    Reader,
}

/// A tenant is made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTenant {
    /// Its name.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$")]
    pub name: String,
    /// How much it may use; what is absent has its default.
    #[serde(default)]
    pub quotas: Quotas,
}

/// How much a tenant may use. What is absent has the server's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<u64>,
    /// Streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
    /// Bytes of all kept components.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component_bytes: Option<u64>,
    /// Events taken in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_per_second: Option<u32>,
    /// Requests in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// Cores that its rules may use, such as 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0.0)]
    pub cpu: Option<f64>,
    /// Its share of the cores when others want them, too, beside the weight of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Instances of its rules at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// Bytes of memory of one instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Keys with state or a timeout, of all its rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_keys: Option<u64>,
    /// Bytes of all its rules' state files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_bytes: Option<u64>,
    /// Outputs in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs_per_second: Option<u32>,
    /// Bytes of all its streams, as they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_bytes: Option<u64>,
}

/// A tenant.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: String,
    /// How much it may use, defaults included.
    pub quotas: Quotas,
    /// How much it uses.
    pub usage: Usage,
}

/// How much a tenant uses.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Rules.
    pub rules: u64,
    /// Streams.
    pub streams: u64,
    /// Bytes of all kept components.
    pub component_bytes: u64,
    /// Keys with state or a timeout.
    pub state_keys: u64,
    /// Bytes of all state files.
    pub state_bytes: u64,
    /// Bytes of all streams.
    pub stream_bytes: u64,
}

/// A token is made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name, which the audit shows.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$")]
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// For how long, such as `30d` or `12h`; absent: until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    pub expires_in: Option<String>,
}

/// A token, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// When it was made.
    pub created: String,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// A token with its secret, which is shown this once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenSecret {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What goes behind `Authorization: Bearer`.
    pub secret: String,
}

/// A new secret for a token.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rotate {
    /// How long the old secret still holds, such as `5m`; absent: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    pub grace: Option<String>,
}

/// Who asks.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// The tenant; absent for a platform token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The token's name.
    pub token: String,
    /// What it allows.
    pub role: Role,
}
