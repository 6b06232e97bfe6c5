//! [`LettersToPurge`]: which dead letters are deleted. It is an import like others: the batch that reads it deletes them, so a batch that
//! runs again deletes the same.

use serde::{Deserialize, Serialize};

/// How the line begins that deletes dead letters.
pub(super) const PURGE: &str = "{\"purge\":";
/// The reason of an output that the sink refused. Such letters are kept with the plans.
pub const OUTPUT_REFUSED: &str = "output-refused";

/// Which dead letters are deleted: those of the batches before that have all that is said; all of them when nothing is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LettersToPurge {
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
}

/// A line that deletes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeLine {
    pub purge: LettersToPurge,
}

impl LettersToPurge {
    /// Whether outputs are among them that the sink refused. They have no key.
    pub fn has_refused_outputs(&self) -> bool {
        self.key.is_none() && self.reason.as_ref().is_none_or(|reason| reason == OUTPUT_REFUSED)
    }
}
