//! [`PageLimit`]: how much is shown at once. Not more than fits into one answer, and not nothing, which would be read as the end.

use crate::service::{EVENTS_DEFAULT, EVENTS_MAX};
use serde::Deserialize;

/// How much is shown at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "usize")]
pub struct PageLimit(pub usize);

impl Default for PageLimit {
    fn default() -> Self {
        PageLimit(EVENTS_DEFAULT)
    }
}

impl TryFrom<usize> for PageLimit {
    type Error = String;

    fn try_from(limit: usize) -> Result<Self, String> {
        match limit {
            1..=EVENTS_MAX => Ok(PageLimit(limit)),
            _ => Err(format!("limit is {limit}: 1 to {EVENTS_MAX} are possible")),
        }
    }
}
