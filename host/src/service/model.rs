//! What users send to the service and what it answers, as JSON: names, units and defaults of the public interface.

use crate::event::{BatchId, Millis};
use crate::host::StateChoice;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
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

/// A stream is made or changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamSettings {
    /// Partitions; absent: 1. Never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// JSON Pointer to what events are spread over the partitions by; needed when there are several. Never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// JSON Pointer to an id of each event: an event whose id was seen lately is taken once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How many ids are remembered; absent: 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids_remembered: Option<u64>,
    /// Events older than this are deleted, unless a rule still needs them; such as `7d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    pub retention_age: Option<String>,
    /// Above this size the oldest events are deleted, unless a rule still needs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_bytes: Option<u64>,
}

/// A stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: String,
    /// Its settings, defaults included.
    pub settings: StreamSettings,
    /// For each partition.
    pub partitions: Vec<StreamPartition>,
    /// Bytes as they are stored.
    pub bytes: u64,
    /// Rules that read it.
    pub readers: Vec<StreamReader>,
}

/// A partition of a stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StreamPartition {
    /// The number of the first event that is still there.
    pub first: u64,
    /// The number that the next event gets.
    pub next: u64,
}

/// A rule that reads a stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StreamReader {
    /// The rule.
    pub rule: String,
    /// Events that it has not read yet.
    pub lag: u64,
    /// Whether events that are past their retention are kept because it needs them.
    pub holds_retention: bool,
}

/// Events were taken: they are on the disk.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Appended {
    /// How many.
    pub accepted: u64,
    /// How many were there already, by their id.
    pub duplicates: u64,
    /// For each partition that got some: the numbers of the first and of the last one.
    pub placed: Vec<PlacedRange>,
}

/// Where events lie in a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlacedRange {
    /// The partition.
    pub partition: u32,
    /// The number of the first one.
    pub first: u64,
    /// The number of the last one.
    pub last: u64,
}

/// An event, as it is read back: one line of JSON each.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReadEvent {
    /// The partition.
    pub partition: u32,
    /// Its number.
    pub number: u64,
    /// When it was taken.
    pub received: String,
    /// The event.
    pub event: Value,
}

/// A rule, as its author declares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What it reads, by name. Most rules have one input, called `input`.
    pub inputs: BTreeMap<String, InputManifest>,
    /// Partitions of its state; absent: 1. Does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// Where outputs go; absent: to the stream `<rule>.outputs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputManifest>,
    /// What it may use, such as `fuel-per-group`; see the limits of a rule file. At most what the tenant may.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
    /// How batches are made.
    #[serde(default)]
    pub batch: BatchManifest,
    /// Which of several inputs' watermarks is the rule's: `min` or `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark_policy: Option<String>,
    /// How it answers single events.
    #[serde(default)]
    pub decide: DecideManifest,
    /// When it is rolled back or quarantined.
    #[serde(default)]
    pub errors: ErrorPolicy,
}

/// What a rule reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputManifest {
    /// The stream.
    pub stream: String,
    /// JSON Pointers to the parts of the key.
    pub key: Vec<String>,
    /// JSON Pointer to the event time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time: Option<String>,
    /// How event times are written: `epoch-ms` (the default), `epoch-s` or `rfc3339`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time_format: Option<String>,
    /// How far the watermark stays behind the greatest event time, such as `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark_delay: Option<String>,
    /// After how long without events the input no longer holds the watermark back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_after: Option<String>,
    /// Where a new rule begins.
    #[serde(default)]
    pub from: From,
}

/// Where a new rule begins in its input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    /// With the first event that is there.
    #[default]
    Earliest,
    /// With what comes after the rule is made.
    Latest,
}

/// Where outputs go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OutputManifest {
    /// A stream of the tenant, which is made when it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Or a URL: the table `[webhook]` of a rule file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Value>,
}

/// How batches are made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BatchManifest {
    /// Events of one batch at most; absent: 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// At most one batch in each interval, such as `1s`; absent: as soon as there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

/// How a rule answers single events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DecideManifest {
    /// Whoever asks waits so long, such as `50ms`; absent: 1s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The answer when there is none in time: what is said here is whether the rule fails open or closed.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub default: Value,
    /// The input that the event goes to, when there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

/// When a rule is rolled back or quarantined by itself. Shares lie between 0 and 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorPolicy {
    /// A new version that fails more than this share of its groups in its first batches is rolled back; absent: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_share: Option<f64>,
    /// These first batches; absent: 10. 0 for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_batches: Option<u64>,
    /// A rule that fails more than this share of its groups is quarantined; absent: 0.9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantine_share: Option<f64>,
    /// In so many batches with events, one after another; absent: 10. 0 for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantine_batches: Option<u64>,
    /// After so many failed groups in one batch of a partition the rest is not called; absent: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_per_batch: Option<u64>,
}

/// A rule.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: String,
    /// As its author declares it, defaults left out.
    pub manifest: Manifest,
    /// What it does now.
    pub status: RuleStatus,
    /// The version that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<VersionName>,
}

/// A version in a few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionName {
    /// What the component calls its version.
    pub version: String,
    /// `sha256:` and the hash of its bytes.
    pub digest: String,
}

/// What a rule does now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RuleStatus {
    /// In a word.
    pub state: RuleState,
    /// Why, when it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The last batch that was committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// Keys with state or a timeout.
    pub keys: u64,
    /// Events that it has not read yet.
    pub lag: u64,
    /// Keys whose state an earlier version wrote and that are still to be migrated, forgotten or drained.
    pub rows_left: u64,
    /// When the next timeout in processing time is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Millis>,
}

/// What a rule does now, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleState {
    /// No version is active.
    New,
    /// It runs, or waits for events or timeouts.
    Running,
    /// Somebody has paused it.
    Paused,
    /// It failed again and again, and waits for somebody.
    Quarantined,
    /// A quota holds it back.
    Held,
    /// It cannot run, and tries again by itself.
    Failed,
    /// It is being deleted, and finishes what it has.
    Draining,
}

/// A version of a rule.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// What the component calls its version.
    pub version: String,
    /// `sha256:` and the hash of its bytes.
    pub digest: String,
    /// Its bytes.
    pub bytes: u64,
    /// When it was uploaded.
    pub uploaded: String,
    /// Which token uploaded it.
    pub uploaded_by: String,
    /// How far its checks are.
    pub status: VersionStatus,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The schema number of the states that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_schema: Option<u32>,
    /// What may become of the states that are there when it is activated, as far as the checks could see.
    pub possible: Vec<StateChoice>,
    /// How it did with the last events of its inputs and the states of their keys, of which nothing was kept; absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<VersionTrial>,
}

/// How a version did on trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionTrial {
    /// Keys that it was called for.
    pub groups: u64,
    /// Of these, the ones that it failed for.
    pub failed: u64,
    /// Of the first of them: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far the checks of a version are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VersionStatus {
    /// They run.
    Checking,
    /// It may be activated.
    Ready,
    /// It may not.
    Refused,
}

/// Another version is to run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Activate {
    /// Its digest, the beginning of it, or what the component calls its version when that is unique.
    pub version: String,
    /// What becomes of the states that are there; needed when there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateChoice>,
}

/// The version before is to run again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rollback {
    /// What becomes of the states that are there; needed when there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateChoice>,
}

/// An activation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ActivationRecord {
    /// When it was asked for.
    pub time: String,
    /// Which token asked; absent when the host rolled back by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What runs since.
    pub to: VersionName,
    /// What ran before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<VersionName>,
    /// What became of the states.
    pub state: StateChoice,
    /// The first batch that ran with it; absent while it has not taken effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// Why, when the host did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

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
