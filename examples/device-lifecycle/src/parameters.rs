//! [`Parameters`]: how long silence may last.

use crate::flaps::FLAPS_MAX;
use keyfold_sdk::prelude::*;
use schemars::JsonSchema;

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// The parameters of the rule. All have defaults.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// How often a healthy device sends a heartbeat.
    pub interval_ms: i64,
    /// A device is late after this much silence. Nobody is told.
    pub late_ms: i64,
    /// A device is offline after this much silence. Also how long a host that was down waits before it reports any.
    pub offline_ms: i64,
    /// A device that comes back this often within the window is flapping.
    pub flap_count: u32,
    /// The window of `flap_count`.
    pub flap_window_ms: i64,
    /// How long a retired device is remembered, so that it is recognised when it is heard again.
    pub retired_keep_ms: i64,
}

impl Default for Parameters {
    /// Two lost heartbeats of one a minute are late, five are offline; in between lies time for a retry.
    fn default() -> Self {
        Parameters {
            interval_ms: MINUTE_MS,
            late_ms: 150 * SECOND_MS,
            offline_ms: 330 * SECOND_MS,
            flap_count: 3,
            flap_window_ms: 30 * MINUTE_MS,
            retired_keep_ms: DAY_MS,
        }
    }
}

impl Parameters {
    /// Refuses what cannot work, by name.
    pub fn check(&self) -> Result<()> {
        within("interval_ms", self.interval_ms, SECOND_MS, DAY_MS)?;
        within("late_ms", self.late_ms, SECOND_MS, 7 * DAY_MS)?;
        within("offline_ms", self.offline_ms, SECOND_MS, 7 * DAY_MS)?;
        within("flap_count", self.flap_count.into(), 2, FLAPS_MAX as i64)?;
        within("flap_window_ms", self.flap_window_ms, SECOND_MS, 90 * DAY_MS)?;
        within("retired_keep_ms", self.retired_keep_ms, MINUTE_MS, 90 * DAY_MS)?;
        if self.late_ms <= self.interval_ms {
            bail!(
                "late_ms is {}: make it longer than interval_ms, {}, or every device is late between two heartbeats",
                self.late_ms,
                self.interval_ms
            );
        }
        if self.offline_ms <= self.late_ms {
            bail!("offline_ms is {}: make it longer than late_ms, {}", self.offline_ms, self.late_ms);
        }
        // Between two times that a device comes back lies a whole silence.
        let shortest_ms = i64::from(self.flap_count - 1) * self.offline_ms;
        if self.flap_window_ms <= shortest_ms {
            bail!(
                "flap_window_ms is {}: make it longer than {shortest_ms}, since a device cannot come back {} times in less",
                self.flap_window_ms,
                self.flap_count
            );
        }
        Ok(())
    }
}

fn within(name: &str, value: i64, min: i64, max: i64) -> Result<()> {
    if !(min..=max).contains(&value) {
        bail!("{name} is {value}: choose it from {min} to {max}");
    }
    Ok(())
}
