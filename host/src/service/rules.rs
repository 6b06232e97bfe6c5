//! Rules: made, changed, looked at, paused, deleted.

use super::model::{LetterFilter, LettersTaken, Manifest, Rule};
use super::{Answer, Caller, DeleteRule, LogTail, Put, Service, ServiceError, StreamTail, Wake, not_yet};
use serde_json::Value;

impl Service {
    /// Makes a rule, or changes what can be changed of it. A change of parameters or limits takes effect as an activation.
    pub fn put_rule(&self, caller: &Caller, name: &str, manifest: &Manifest) -> Answer<Put<Rule>> {
        let _ = (caller, name, manifest);
        not_yet()
    }

    /// Reads a manifest, and tells which of its fields is wrong.
    pub fn parse_manifest(json: &[u8]) -> Answer<Manifest> {
        serde_json::from_slice(json).map_err(|error| ServiceError::invalid("invalid", error.to_string()))
    }

    /// The rules of the caller's tenant, in the order of their names.
    pub fn rules(&self, caller: &Caller) -> Answer<Vec<Rule>> {
        let _ = caller;
        not_yet()
    }

    /// A rule.
    pub fn rule(&self, caller: &Caller, name: &str) -> Answer<Rule> {
        let _ = (caller, name);
        not_yet()
    }

    /// Deletes a rule: at once, or when it has finished what it has.
    pub fn delete_rule(&self, caller: &Caller, name: &str, delete: &DeleteRule) -> Answer<()> {
        let _ = (caller, name, delete);
        not_yet()
    }

    /// Stops a rule at a batch boundary. It keeps its state and its place in its inputs.
    pub fn pause(&self, caller: &Caller, name: &str) -> Answer<Rule> {
        let _ = (caller, name);
        not_yet()
    }

    /// Lets a rule go on that was paused or is quarantined.
    pub fn resume(&self, caller: &Caller, name: &str) -> Answer<Rule> {
        let _ = (caller, name);
        not_yet()
    }

    /// What its last batches did, oldest first: `StreamingQueryProgress` of Spark.
    pub fn progress(&self, caller: &Caller, name: &str) -> Answer<Vec<Value>> {
        let _ = (caller, name);
        not_yet()
    }

    /// Follows what a rule logs.
    pub fn tail_log(&self, caller: &Caller, name: &str, wake: Wake) -> Answer<LogTail> {
        let _ = (caller, name, wake);
        not_yet()
    }

    /// Follows the outputs of a rule whose outputs go to a stream.
    pub fn tail_outputs(&self, caller: &Caller, name: &str, wake: Wake) -> Answer<StreamTail> {
        let _ = (caller, name, wake);
        not_yet()
    }

    /// The state of a key as JSON, with its schema and its timeout.
    pub fn state(&self, caller: &Caller, name: &str, key: &str) -> Answer<Value> {
        let _ = (caller, name, key);
        not_yet()
    }

    /// Dead letters, oldest first, as `keyfold dead-letters` shows them, at most `limit`.
    pub fn dead_letters(&self, caller: &Caller, name: &str, filter: &LetterFilter, limit: usize) -> Answer<Vec<Value>> {
        let _ = (caller, name, filter, limit);
        not_yet()
    }

    /// Lets the events of dead letters run again, each with its own event time.
    pub fn re_drive(&self, caller: &Caller, name: &str, filter: &LetterFilter) -> Answer<LettersTaken> {
        let _ = (caller, name, filter);
        not_yet()
    }

    /// Deletes dead letters.
    pub fn purge_letters(&self, caller: &Caller, name: &str, filter: &LetterFilter) -> Answer<LettersTaken> {
        let _ = (caller, name, filter);
        not_yet()
    }
}
