//! [`CallError`]: why a group or a call failed, and whose it was.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a group failed. The words are stable: dead letters and dashboards use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The rule returned an error for the group.
    RuleError,
    /// The rule refused the whole call.
    CallRefused,
    /// The rule panicked.
    Panic,
    /// The rule trapped: an illegal memory access, a division by zero, an unreachable instruction.
    Trap,
    /// The group used up its fuel.
    OutOfFuel,
    /// The call took longer than its deadline.
    Deadline,
    /// The rule asked for more memory than its limit.
    MemoryLimit,
    /// The rule recursed too deeply.
    StackOverflow,
    /// The state is larger than the limit.
    StateLimit,
    /// Too many outputs, or too many bytes of them.
    OutputLimit,
    /// Too many log lines.
    LogLimit,
    /// The answer's columns do not fit together, or hold what is not allowed.
    MalformedAnswer,
    /// The timeout that was set is not acceptable.
    InvalidTimeout,
    /// The rule did not enter its groups one after another.
    InvalidProgress,
    /// The state's schema is not one that the rule reads.
    UnreadableState,
    /// So many groups of the batch had failed that the rule was not called for this one.
    RuleFailing,
    /// The rule did not rewrite the state of an older schema.
    MigrationFailed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The words are those of the serialised form, so that there is one list of them.
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(word)) => f.write_str(&word),
            _ => write!(f, "{self:?}"),
        }
    }
}

/// A failed call, or a failed group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// Why.
    pub reason: Reason,
    /// What happened and what to do, for people.
    pub message: String,
    /// The group that was being worked on, when the rule said so.
    pub group: Option<usize>,
    /// The fuel that this group had used, when the rule said so; else that of the call.
    pub fuel: u64,
}

impl CallError {
    /// An error that is not tied to a group yet.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        CallError { reason, message: message.into(), group: None, fuel: 0 }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for CallError {}
