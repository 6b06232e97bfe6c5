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

    /// The inputs were not asked: nobody knows whether they would have brought something.
    pub fn forget_quiet(&mut self) {
        self.quiet_since.fill(None);
    }

    /// The watermark of the batch after `last`.
    pub fn next(&self, last: Option<&Plan>, now: Millis) -> Millis {
        let Some(last) = last else { return Millis(0) };
        let before = last.watermark.unwrap_or_default();
        let of_input = |input: usize| {
            let max = last.event_times_max.get(input).copied().flatten();
            // An input that has brought nothing stands at 0.
            max.map_or(Millis(0), |max| Millis(max.0.saturating_sub(millis(self.inputs[input].delay))))
        };
        let slowest = (0..self.inputs.len()).filter(|&input| !self.is_idle(input, now)).map(of_input).min();
        let fastest = (0..self.inputs.len()).map(of_input).max();
        let moved = match self.policy {
            // When all are idle, none waits for another: it is as if they had become idle one after the other.
            WatermarkPolicy::Min => slowest.or(fastest),
            WatermarkPolicy::Max => fastest,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BatchId, OffsetRange, Position};
    use crate::limits::Limits;

    /// Two inputs without delay that are idle after 10 ms.
    fn watermarks(policy: WatermarkPolicy) -> Watermarks {
        let input = InputWatermark { delay: Duration::ZERO, idle_after: Some(Duration::from_millis(10)) };
        Watermarks::new(policy, vec![input, input])
    }

    /// A batch after which the two inputs have come so far.
    fn last(watermark: i64, event_times_max: [i64; 2]) -> Plan {
        Plan {
            batch: BatchId(0),
            ranges: Vec::new(),
            time: Millis(0),
            watermark: Some(Millis(watermark)),
            late_watermark: Some(Millis(0)),
            event_times_max: event_times_max.map(|max| Some(Millis(max))).to_vec(),
            seed: String::new(),
            digest: String::new(),
            parameters: String::new(),
            limits: Limits::default(),
            batch_query: false,
            generation: Default::default(),
            older: Vec::new(),
            sweep: None,
        }
    }

    fn from(inputs: &[u32]) -> RecordBatch {
        let at = Position::default();
        let range = |&input: &u32| OffsetRange { input: InputId(input), file: String::new(), from: at, to: at };
        RecordBatch { ranges: inputs.iter().map(range).collect(), ..RecordBatch::default() }
    }

    #[test]
    fn an_input_that_is_idle_holds_nothing_back_until_it_brings_something() {
        let mut watermarks = watermarks(WatermarkPolicy::Min);
        let last = last(5, [100, 60]);
        watermarks.observe(&from(&[0]), Millis(0));
        assert_eq!(watermarks.next(Some(&last), Millis(9)), Millis(60));
        assert_eq!(watermarks.next(Some(&last), Millis(10)), Millis(100));
        watermarks.observe(&from(&[0, 1]), Millis(11));
        assert_eq!(watermarks.next(Some(&last), Millis(50)), Millis(60));
    }

    #[test]
    fn inputs_that_are_all_idle_wait_for_none() {
        let mut watermarks = watermarks(WatermarkPolicy::Min);
        watermarks.observe(&from(&[]), Millis(0));
        assert_eq!(watermarks.next(Some(&last(5, [100, 60])), Millis(10)), Millis(100));
    }

    #[test]
    fn an_input_that_was_not_asked_is_not_idle() {
        let mut watermarks = watermarks(WatermarkPolicy::Min);
        watermarks.observe(&from(&[0]), Millis(0));
        watermarks.forget_quiet();
        assert_eq!(watermarks.next(Some(&last(5, [100, 60])), Millis(50)), Millis(60));
    }

    #[test]
    fn the_fastest_counts_under_max_also_when_it_is_idle() {
        let mut watermarks = watermarks(WatermarkPolicy::Max);
        watermarks.observe(&from(&[1]), Millis(0));
        assert_eq!(watermarks.next(Some(&last(5, [100, 60])), Millis(50)), Millis(100));
    }

    #[test]
    fn a_watermark_never_goes_back() {
        let watermarks = watermarks(WatermarkPolicy::Min);
        assert_eq!(watermarks.next(Some(&last(80, [100, 60])), Millis(0)), Millis(80));
        assert_eq!(watermarks.next(Some(&last(0, [-50, -60])), Millis(0)), Millis(0));
    }
}
