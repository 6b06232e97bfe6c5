//! Tails: readers that stay, of a stream or of a rule's log. They end with the token that they were begun with.

use super::model::ReadEvent;
use super::{Answer, not_yet};
use serde_json::Value;

/// Reads a stream from its end on.
pub struct StreamTail {}

impl StreamTail {
    /// Events that have come since, at most so many; empty when there are none now: the wake of the tail is called when there are.
    pub fn read(&mut self, limit: usize) -> Answer<Vec<ReadEvent>> {
        let _ = limit;
        not_yet()
    }
}

/// Reads what a rule logs.
pub struct LogTail {}

impl LogTail {
    /// Lines that have come since, each as JSON: `time`, `level`, `key`, `text`, `version`; `dropped` when lines were too many to keep.
    pub fn read(&mut self) -> Answer<Vec<Value>> {
        not_yet()
    }
}
