//! [`Refusal`]: errors that no second attempt mends. All others are the store's, and it is tried again.

use std::fmt;

/// The checkpoint is another host's now, or never was this one's.
#[derive(Debug)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Whether the store is at fault, and may have come back when it is tried again.
pub(super) fn is_trouble_of_store(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<object_store::Error>())
}
