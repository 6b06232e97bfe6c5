//! [`Watermarks`]: how far event time has come, over all inputs of a rule.
//!
//! As in Spark, each input's watermark is the greatest event time that it has brought less its delay, the rule's is the least or the
//! greatest of them, and it never goes back. Unlike Spark, the greatest event times are kept over a restart, and an input can be
//! declared idle, so that it no longer holds the others back.

use crate::event::{InputId, Millis, RecordBatch};
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Which of the inputs' watermarks is the rule's: Spark's `multipleWatermarkPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatermarkPolicy {
    /// The slowest input's: nothing is late that would not be late for its own input.
    #[default]
    Min,
    /// The fastest input's: slower ones lose their late events.
    Max,
}

impl WatermarkPolicy {
    /// As it is written in settings.
    pub fn name(self) -> &'static str {
        match self {
            WatermarkPolicy::Min => "min",
            WatermarkPolicy::Max => "max",
        }
    }
}

/// How one input moves the watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputWatermark {
    /// How far its watermark stays behind its greatest event time.
    pub delay: Duration,
    /// For how long it may bring nothing before it is idle; none for ever.
    pub idle_after: Option<Duration>,
}

/// How far event time has come.
#[derive(Debug)]
pub struct Watermarks {
    policy: WatermarkPolicy,
    inputs: Vec<InputWatermark>,
    /// Since when each input has brought nothing. Not kept over a restart: while the host does not run, nothing can be brought.
    quiet_since: Vec<Option<Millis>>,
}

impl Watermarks {
    /// Nothing was read yet.
    pub fn new(policy: WatermarkPolicy, inputs: Vec<InputWatermark>) -> Self {
        let quiet_since = vec![None; inputs.len()];
        Watermarks { policy, inputs, quiet_since }
    }

    /// Takes note of which inputs a read brought something from.
    pub fn observe(&mut self, records: &RecordBatch, now: Millis) {
        for (number, quiet_since) in self.quiet_since.iter_mut().enumerate() {
            let has_records = records.ranges.iter().any(|range| range.input == InputId(number as u32));
            *quiet_since = if has_records { None } else { Some(quiet_since.unwrap_or(now)) };
        }
    }

    /// The watermark of the batch after `last`.
    pub fn next(&self, last: Option<&Plan>, now: Millis) -> Millis {
        let Some(last) = last else { return Millis(0) };
        let before = last.watermark.unwrap_or_default();
        let of_inputs = (0..self.inputs.len()).filter(|&input| !self.is_idle(input, now)).map(|input| {
            let max = last.event_times_max.get(input).copied().flatten();
            // An input that has brought nothing stands at 0.
            max.map_or(Millis(0), |max| Millis(max.0.saturating_sub(millis(self.inputs[input].delay))))
        });
        let moved = match self.policy {
            WatermarkPolicy::Min => of_inputs.min(),
            WatermarkPolicy::Max => of_inputs.max(),
        };
        before.max(moved.unwrap_or(before)).max(Millis(0))
    }

    fn is_idle(&self, input: usize, now: Millis) -> bool {
        let quiet_ms = self.quiet_since[input].map(|since| now.0.saturating_sub(since.0));
        quiet_ms.zip(self.inputs[input].idle_after).is_some_and(|(quiet_ms, after)| quiet_ms >= millis(after))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
