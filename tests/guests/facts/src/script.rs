//! `script`: the events themselves say what is called on the `GroupState`. For the facts about its methods (S01 to S18) and about
//! what is kept after a call (M01 to M17).

use crate::function::Group;
use keyfold_sdk::Interval;
use keyfold_sdk::prelude::*;
use keyfold_sdk::testing::TestGroupState;
use serde_json::{Value, json};

/// The calls of the events, one after another. One output for each call of the rule: what each gave.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Script {
    /// What is done in a call for a timeout.
    #[serde(default)]
    on_timeout: Vec<Call>,
}

/// One call of a method of `GroupState`: `{"call": "update", "with": 5}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "call", content = "with", rename_all = "kebab-case")]
pub enum Call {
    /// `exists`
    Exists,
    /// `get`
    Get,
    /// `getOption`
    GetOption,
    /// `update`
    Update(Value),
    /// `remove`
    Remove,
    /// `hasTimedOut`
    HasTimedOut,
    /// `is_initial`
    IsInitial,
    /// `setTimeoutDuration`
    SetTimeoutDuration(Duration),
    /// `setTimeoutTimestamp`
    SetTimeoutTimestamp(Timestamp),
    /// `getCurrentWatermarkMs`
    CurrentWatermark,
    /// `getCurrentProcessingTimeMs`
    CurrentProcessingTime,
    /// An error of the function itself.
    Fail,
    /// `isUpdated`, which Spark's test state has.
    IsUpdated,
    /// `isRemoved`, which Spark's test state has.
    IsRemoved,
    /// `isTimeoutUpdated`, which Spark's test state has.
    IsTimeoutUpdated,
    /// `getTimeoutTimestampMs`, which Spark's test state has; here with the clock.
    Timeout,
}

/// Milliseconds, or text such as `2 second`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Duration {
    /// Milliseconds.
    Millis(i64),
    /// Text.
    Text(String),
}

/// Milliseconds since 1970, alone or with text that is added.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Timestamp {
    /// Alone.
    Millis(i64),
    /// With an additional duration.
    After(i64, String),
}

impl Script {
    pub(crate) fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        let mut results = Vec::new();
        if group.state.has_timed_out() {
            results = perform(&self.on_timeout, group.state)?;
        }
        for row in &group.rows {
            results.extend(perform(&row.calls, group.state)?);
        }
        Ok(vec![results.into()])
    }
}

/// Makes the calls. The result of each: its value, `null` for none, or the name of the exception that Spark's method throws.
///
/// An error is one that no method of Spark's has: that of [`Call::Fail`], a call of the test state's, a state that cannot be read.
pub fn perform(calls: &[Call], state: &mut GroupState<'_, Value>) -> Result<Vec<Value>> {
    calls.iter().map(|call| perform_one(call, state)).collect()
}

/// As [`perform`], with the calls that only the test state has.
pub fn perform_in_test(calls: &[Call], state: &mut TestGroupState<Value>) -> Result<Vec<Value>> {
    let perform = |call: &Call| match call {
        Call::IsUpdated => Ok(state.is_updated().into()),
        Call::IsRemoved => Ok(state.is_removed().into()),
        Call::IsTimeoutUpdated => Ok(state.is_timeout_updated().into()),
        Call::Timeout => Ok(state.timeout().map_or(Value::Null, |Timeout { clock, at_ms }| {
            let clock = match clock {
                TimeoutClock::ProcessingTime => "processing-time",
                TimeoutClock::EventTime => "event-time",
            };
            json!({ "clock": clock, "ms": at_ms })
        })),
        _ => perform_one(call, state),
    };
    calls.iter().map(perform).collect()
}

fn perform_one(call: &Call, state: &mut GroupState<'_, Value>) -> Result<Value> {
    let nothing = |()| Value::Null;
    let result = match call {
        Call::Exists => Ok(state.exists().into()),
        Call::Get => state.get(),
        Call::GetOption => state.get_option().map(Option::unwrap_or_default),
        Call::Update(value) => state.update(value).map(nothing),
        Call::Remove => {
            state.remove();
            Ok(Value::Null)
        }
        Call::HasTimedOut => Ok(state.has_timed_out().into()),
        Call::IsInitial => Ok(state.is_initial().into()),
        Call::SetTimeoutDuration(duration) => state.set_timeout_duration(duration).map(nothing),
        Call::SetTimeoutTimestamp(Timestamp::Millis(at_ms)) => state.set_timeout_timestamp(*at_ms).map(nothing),
        Call::SetTimeoutTimestamp(Timestamp::After(at_ms, additional)) => {
            state.set_timeout_timestamp_after(*at_ms, additional).map(nothing)
        }
        Call::CurrentWatermark => state.current_watermark_ms().map(Value::from),
        Call::CurrentProcessingTime => Ok(state.current_processing_time_ms().into()),
        Call::Fail => bail!("the script says fail"),
        Call::IsUpdated | Call::IsRemoved | Call::IsTimeoutUpdated | Call::Timeout => {
            bail!("{call:?} can be asked of the test state alone")
        }
    };
    result.or_else(|error| Ok(exception(error)?.into()))
}

/// The name of Spark's exception.
fn exception(error: StateError) -> Result<&'static str, StateError> {
    match error {
        StateError::NoSuchElement(_) => Ok("NoSuchElementException"),
        StateError::UnsupportedOperation(_) => Ok("UnsupportedOperationException"),
        StateError::IllegalArgument(_) => Ok("IllegalArgumentException"),
        StateError::Codec(_) => Err(error),
    }
}

impl Interval for Duration {
    fn to_millis(&self) -> Result<i64, StateError> {
        match self {
            Duration::Millis(ms) => ms.to_millis(),
            Duration::Text(text) => text.to_millis(),
        }
    }
}
