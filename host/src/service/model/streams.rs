//! Streams and events.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

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
