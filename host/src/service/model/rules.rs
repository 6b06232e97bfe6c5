//! Rules: what they do, their versions and their activations.

use super::Manifest;
use crate::event::{BatchId, Millis};
use crate::host::StateChoice;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
