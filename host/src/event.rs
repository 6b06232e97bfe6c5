//! The nouns of the stream: ids, times, records and events. Depends on nothing but the runs of keyed records that a batch may carry.

use crate::extract::KeyedRun;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A fixed share of the key space, with its own state file and thread. From 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionId(pub u32);

/// A micro-batch. From 0, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct BatchId(pub u64);

/// One of the inputs of a rule, numbered in the order of their names. From 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InputId(pub u32);

impl InputId {
    /// The imported states, which are read from files and planned as events are.
    pub const IMPORTS: InputId = InputId(u32::MAX);
}

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

/// How many key groups there are. A key's group never changes, so that partitions can be split later by moving groups;
/// changing this number or the hash would break every state file.
pub const KEY_GROUPS: u32 = 1024;

/// `hash(key) mod 1024`: the unit that moves when partitions are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyGroup(pub u16);

impl KeyGroup {
    /// The group of a key.
    pub fn of(key: &[u8]) -> Self {
        Self::of_hash(xxhash_rust::xxh3::xxh3_64(key))
    }

    /// The group of a key whose `xxh3_64` is known, so that a key is hashed once.
    pub fn of_hash(hash: u64) -> Self {
        KeyGroup((hash % u64::from(KEY_GROUPS)) as u16)
    }

    /// The partition that owns this group when there are `partitions` of them: contiguous ranges of groups.
    pub fn partition(self, partitions: u32) -> PartitionId {
        PartitionId(u32::from(self.0) * partitions / KEY_GROUPS)
    }
}

/// A place in a file (or another source partition). Offsets count decompressed bytes, from 0; lines count from 0 the lines
/// before the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Position {
    /// Bytes before this place.
    pub offset: u64,
    /// Lines before this place.
    pub line: u64,
}

/// What a batch reads of one source partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetRange {
    /// Which input it belongs to.
    pub input: InputId,
    /// The source partition: for files, the path as it was found.
    pub file: String,
    /// Where reading begins.
    pub from: Position,
    /// Where it ends; what lies before it has been read.
    pub to: Position,
}

/// How far each file of each input was read.
pub type Positions = BTreeMap<(InputId, String), Position>;

/// One raw record: a line of JSON, without its line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Where it begins in [`RecordBatch::text`].
    pub start: u32,
    /// Where it ends.
    pub end: u32,
    /// Which of [`RecordBatch::ranges`] it was read from.
    pub range: u32,
    /// Its line number in the file, from 1.
    pub line: u64,
}

/// A record that cannot become an event. It goes to the dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Which of [`RecordBatch::ranges`] it was read from.
    pub range: u32,
    /// Its line number in the file, from 1.
    pub line: u64,
    /// A stable word for machines, such as `invalid-json`.
    pub reason: &'static str,
    /// What is wrong, for people; names the field or the limit.
    pub message: String,
    /// The record as it was read, cut at [`REJECTED_BYTES_MAX`].
    pub text: Vec<u8>,
}

/// How much of a rejected record is kept: enough to recognise it, not enough to fill a disk with one bad file.
pub const REJECTED_BYTES_MAX: usize = 4096;

/// What was read for one micro-batch.
#[derive(Debug, Clone, Default)]
pub struct RecordBatch {
    /// The records one after another, as JSON. May hold bytes between them that belong to no record.
    pub text: Vec<u8>,
    /// The records in source order: files in the order of `ranges`, lines in order.
    pub records: Vec<Record>,
    /// What was read, in reading order. A file of an input occurs once.
    pub ranges: Vec<OffsetRange>,
    /// Records that the source could not read as such: too long, invalid UTF-8, a wrong number of CSV columns.
    pub rejected: Vec<Rejected>,
    /// Runs of records whose events are known, in order: streams share what several rules look for.
    pub keyed: Vec<KeyedRun>,
}

impl RecordBatch {
    /// The text of a record.
    pub fn text_of(&self, record: &Record) -> &[u8] {
        &self.text[record.start as usize..record.end as usize]
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Millis {
    /// RFC 3339 in UTC, or the number when it lies outside the calendar.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}
