//! [`Parameters`]: what can be set without a new component. [`Limits`]: the same, checked.

use keyfold_sdk::bail;
use keyfold_sdk::prelude::*;
use schemars::JsonSchema;
use std::ops::RangeInclusive;

/// The rule's parameters. Each has a default. Lengths of time are text such as `30m`, `1 hour 30 minutes`, `7d`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// A payment is high from this amount on, in the smallest unit of its currency.
    pub high_value_minor: i64,
    /// A session ends when this long after its last payment there was no other: 1 minute to 1 day.
    pub session_gap: String,
    /// More high payments than this in one session are suspicious.
    pub velocity_limit: u32,
    /// How long a suspicion waits to be confirmed: 1 second to less than `session_gap`.
    pub confirm_window: String,
    /// How many more high payments confirm a suspicion.
    pub confirm_extra: u32,
    /// A case tells of new payments at most this often, in event time: up to 1 day.
    pub update_every: String,
    /// An open case reminds this often, in processing time: 1 minute to 1 year.
    pub case_ttl: String,
    /// How long a closed case is remembered, in processing time: up to 30 days. With `0s` it is forgotten at once.
    pub closed_tombstone: String,
    /// How many payments are kept as evidence.
    pub evidence_cap: usize,
    /// How many ids are kept to recognise duplicates.
    pub ids_cap: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            high_value_minor: 50_000,
            session_gap: "30m".into(),
            velocity_limit: 5,
            confirm_window: "10m".into(),
            confirm_extra: 2,
            update_every: "5m".into(),
            case_ttl: "7d".into(),
            closed_tombstone: "24h".into(),
            evidence_cap: 32,
            ids_cap: 64,
        }
    }
}

/// Parameters within their bounds, with lengths of time in milliseconds.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Limits {
    pub high_value_minor: i64,
    pub session_gap_ms: i64,
    pub velocity_limit: u32,
    pub confirm_window_ms: i64,
    pub confirm_extra: u32,
    pub update_every_ms: i64,
    pub case_ttl_ms: i64,
    pub closed_tombstone_ms: i64,
    pub evidence_cap: usize,
    pub ids_cap: usize,
}

const SECOND_MS: i64 = 1000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

impl Parameters {
    /// The limits, or a refusal that names the parameter.
    pub fn check(self) -> Result<Limits> {
        let limits = Limits {
            high_value_minor: within("high_value_minor", self.high_value_minor, 1..=1_000_000_000_000)?,
            session_gap_ms: length("session_gap", &self.session_gap, MINUTE_MS..=DAY_MS)?,
            velocity_limit: within("velocity_limit", self.velocity_limit, 1..=1000)?,
            confirm_window_ms: length("confirm_window", &self.confirm_window, SECOND_MS..=DAY_MS)?,
            confirm_extra: within("confirm_extra", self.confirm_extra, 1..=100)?,
            update_every_ms: length("update_every", &self.update_every, 0..=DAY_MS)?,
            case_ttl_ms: length("case_ttl", &self.case_ttl, MINUTE_MS..=366 * DAY_MS)?,
            closed_tombstone_ms: length("closed_tombstone", &self.closed_tombstone, 0..=30 * DAY_MS)?,
            // Both are lists in the state of every user; the defaults keep it below 4 KiB.
            evidence_cap: within("evidence_cap", self.evidence_cap, 1..=128)?,
            ids_cap: within("ids_cap", self.ids_cap, 1..=1024)?,
        };
        // Suspicious must end before its session could, else the machine would need one more transition.
        if limits.confirm_window_ms >= limits.session_gap_ms {
            bail!(
                "confirm_window is {}: it must be shorter than session_gap, {}",
                self.confirm_window,
                self.session_gap
            );
        }
        Ok(limits)
    }
}

fn within<N: PartialOrd + std::fmt::Display>(name: &str, number: N, bounds: RangeInclusive<N>) -> Result<N> {
    if !bounds.contains(&number) {
        bail!("{name} is {number}: it must be from {} to {}", bounds.start(), bounds.end());
    }
    Ok(number)
}

fn length(name: &str, text: &str, bounds_ms: RangeInclusive<i64>) -> Result<i64> {
    let length_ms = text.to_millis().map_err(|error| Error::new(format_args!("{name}: {error}")))?;
    if !bounds_ms.contains(&length_ms) {
        bail!("{name} is {text}: it must be from {} ms to {} ms", bounds_ms.start(), bounds_ms.end());
    }
    Ok(length_ms)
}
