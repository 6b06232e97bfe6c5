//! [`Manifest`]: a rule, as its author declares it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

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
