//! [`Parameters`]: what can be set without a new component.

use keyfold_sdk::bail;
use keyfold_sdk::prelude::*;
use schemars::JsonSchema;

/// The rule's parameters. Each has a default.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// A session ends after this time without a payment: 1 ms to 30 days.
    pub session_gap_ms: i64,
    /// A payment is high from this amount on, in the smallest unit of its currency: above 0.
    pub high_value_minor: i64,
    /// How many high payments a session may have before the alert.
    pub hv_count_max: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters { session_gap_ms: 30 * 60 * 1000, high_value_minor: 50_000, hv_count_max: 5 }
    }
}

/// A longer gap is a mistaken unit, and would keep every user's state for as long.
const SESSION_GAP_MS_MAX: i64 = 30 * 24 * 60 * 60 * 1000;

impl Parameters {
    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=SESSION_GAP_MS_MAX).contains(&self.session_gap_ms) {
            bail!("session_gap_ms is {}: it must be from 1 to {SESSION_GAP_MS_MAX} (30 days)", self.session_gap_ms);
        }
        if self.high_value_minor < 1 {
            bail!("high_value_minor is {}: it must be above 0", self.high_value_minor);
        }
        Ok(())
    }
}
