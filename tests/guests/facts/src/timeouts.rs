//! Functions that time out: `timeout-count` in processing time, `max-event-time` in event time.

use crate::function::Group;
use keyfold_sdk::prelude::*;
use serde_json::{Value, json};

/// Counts rows until nothing comes for a while. For F08, F26, T06, T07 and T36.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TimeoutCount {
    /// How long the key waits.
    timeout_ms: i64,
    /// How long it waits after a call that found a count (T07, T36); `timeout-ms` when left out.
    again_ms: Option<i64>,
    /// The keys that time out (T06, T36); all when left out.
    timeout_keys: Option<Vec<String>>,
    /// The count at which the key is forgotten, without a word (T06).
    limit: Option<i64>,
    /// Says nothing in a call that has initial state and no rows (T36).
    #[serde(default)]
    quiet_initial: bool,
    /// Keeps the count after a timeout (T36).
    #[serde(default)]
    keep: bool,
}

impl TimeoutCount {
    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        if group.state.has_timed_out() {
            if !self.keep {
                group.state.remove();
            }
            return Ok(vec![json!([group.key, -1])]);
        }
        let is_first = !group.state.exists() || group.state.is_initial();
        let count = group.count()? + group.row_count();
        if Some(count) == self.limit {
            group.state.remove();
            return Ok(Vec::new());
        }
        group.state.update(&count.into())?;
        if self.timeout_keys.as_ref().is_none_or(|keys| keys.iter().any(|key| key == group.key)) {
            let again_ms = self.again_ms.unwrap_or(self.timeout_ms);
            group.state.set_timeout_duration(if is_first { self.timeout_ms } else { again_ms })?;
        }
        let is_quiet = self.quiet_initial && group.rows.is_empty();
        Ok(if is_quiet { Vec::new() } else { vec![json!([group.key, count])] })
    }
}

/// Keeps the newest event time, in seconds, until the watermark is five seconds past it. For F09, T09 and T37.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxEventTime {}

impl MaxEventTime {
    const GAP_S: i64 = 5;

    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        if group.state.has_timed_out() {
            group.state.remove();
            return Ok(vec![json!([group.key, -1])]);
        }
        let mut max_s = if group.state.exists() { group.count()? } else { i64::MIN };
        for row in &group.rows {
            max_s = max_s.max(row.time_ms()?.div_euclid(1000));
        }
        group.state.update(&max_s.into())?;
        // Events are let in by the watermark of the batch before, and can lie behind this one by more than the gap.
        let at_ms = max_s.saturating_add(Self::GAP_S).saturating_mul(1000);
        group.state.set_timeout_timestamp(at_ms.max(group.state.current_watermark_ms()?))?;
        // An initial state alone only starts the clock (T37).
        Ok(if group.rows.is_empty() { Vec::new() } else { vec![json!([group.key, max_s])] })
    }
}
