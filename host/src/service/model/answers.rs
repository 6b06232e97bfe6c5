//! What a rule says to one event, what became of events that failed, and who did what.

use super::{PlacedRange, VersionName};
use crate::event::BatchId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What a rule says to one event.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// Whether the rule has answered. If not, `answer` is the declared default, and the event is still put through the rule.
    pub decided: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The key of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the rule put out for this key in the batch of the event; empty when it had nothing to say.
    pub outputs: Vec<Value>,
    /// The declared default, when the rule has not answered.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub answer: Value,
    /// The version that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionName>,
    /// The batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// The processing time of the batch: the state is as of then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_time: Option<String>,
    /// Where the event lies in its stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<PlacedRange>,
}

/// Which dead letters.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LetterFilter {
    /// Those with this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Those of this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// All of them; needed when nothing else is said.
    pub all: bool,
}

/// What was done with dead letters.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LettersTaken {
    /// How many letters.
    pub letters: u64,
    /// How many events they hold.
    pub events: u64,
}

/// A line of the audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its number, from 1.
    pub seq: u64,
    /// When.
    pub time: String,
    /// The tenant; absent for what the platform did to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Its id, which it shares with no tenant that had the name before or will have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// The token's name; `keyfold` when the host did it by itself.
    pub by: String,
    /// The token's role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// What was done, such as `rule.activate`.
    pub action: String,
    /// To what.
    pub target: String,
    /// The digest of the component, when one was concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// More, as JSON.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// `done`, or the code of the error.
    pub outcome: String,
    /// The request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// SHA-256 over the hash of the entry before and this entry.
    pub hash: String,
}
