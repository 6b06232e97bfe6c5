//! [`Parameters`]: when a session ends, and how long it can be amended.

use keyfold_sdk::prelude::*;
use schemars::JsonSchema;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The parameters of the rule. All have defaults.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// A session ends this long after its last event.
    pub idle_ms: i64,
    /// A session is remembered this long after its end, for events that come late.
    pub tombstone_ms: i64,
}

impl Default for Parameters {
    /// Half an hour is what web analytics commonly calls a visit. Two hours cover any sensible watermark delay.
    fn default() -> Self {
        Parameters { idle_ms: 30 * MINUTE_MS, tombstone_ms: 2 * HOUR_MS }
    }
}

impl Parameters {
    /// Refuses what cannot work, by name.
    pub fn check(&self) -> Result<()> {
        within("idle_ms", self.idle_ms, MINUTE_MS, DAY_MS)?;
        within("tombstone_ms", self.tombstone_ms, MINUTE_MS, 7 * DAY_MS)
    }
}

fn within(name: &str, value: i64, min: i64, max: i64) -> Result<()> {
    if !(min..=max).contains(&value) {
        bail!("{name} is {value}: choose it from {min} to {max}");
    }
    Ok(())
}
