//! [`Rule`]: what an author writes.

use crate::{Events, GroupState, Outputs, Result};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A stateful function over a keyed stream: Spark's `flatMapGroupsWithState`.
///
/// A call writes any number of outputs, also none. A function whose every call has one result, such as the new total of a key, is
/// better written as a [`MapRule`](crate::MapRule).
///
/// The host makes a fresh value with [`Rule::new`] for each partition and batch. Fields are for parameters; whatever else
/// a rule remembers in them is gone after the batch.
///
/// The first event of each id, and none of those that repeat it within an hour of event time: Spark's `dropDuplicatesWithinWatermark`.
///
/// ```
/// use keyfold_sdk::prelude::*;
/// use keyfold_sdk::testing::TestStream;
/// use serde_json::{Value, json};
///
/// const HOUR_MS: i64 = 3_600_000;
///
/// struct FirstOfEach;
///
/// impl Rule for FirstOfEach {
///     type Event<'e> = Value;
///     type State = i64;
///     type Output = Value;
///     type Parameters = NoParameters;
///     const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;
///
///     fn new(_: NoParameters) -> Result<Self> { Ok(FirstOfEach) }
///
///     fn call(&self, _: &str, mut events: Events<Value>, until_ms: &mut GroupState<i64>, out: &mut Outputs<Value>) -> Result<()> {
///         if until_ms.has_timed_out() { until_ms.remove(); return Ok(()); }
///         if !until_ms.exists() {
///             let Some(first) = events.next().transpose()? else { return Ok(()) };
///             until_ms.update(&(first.time_ms()? + HOUR_MS))?;
///             out.emit(&first)?;
///         }
///         // Every call clears the timeout.
///         until_ms.set_timeout_timestamp(until_ms.get()?.max(until_ms.current_watermark_ms()?))?;
///         Ok(())
///     }
/// }
///
/// let mut stream = TestStream::new(FirstOfEach, 0);
/// assert_eq!(stream.events("id-1", &[(1_000, json!({"n": 1})), (2_000, json!({"n": 2}))]).unwrap(), [json!({"n": 1})]);
/// stream.advance_event_to(1_000 + HOUR_MS).unwrap();
/// assert_eq!(stream.events("id-1", &[(1_000 + HOUR_MS, json!({"n": 3}))]).unwrap(), [] as [Value; 0]);
/// stream.advance_event_to(1_001 + HOUR_MS).unwrap();
/// assert_eq!(stream.keys().count(), 0);
/// ```
pub trait Rule: Sized + 'static {
    /// One event, decoded from its JSON. It may borrow from the event (`&'e str`).
    ///
    /// A struct that derives `Deserialize` names what the rule reads, and the host hands over these members alone: the fewer, the
    /// faster. Whoever wants the whole text takes `&'e serde_json::value::RawValue`, a type of serde_json's
    /// feature `raw_value`.
    type Event<'e>: Deserialize<'e>;
    /// The state of one key.
    type State: Serialize + DeserializeOwned;
    /// One output, written as one line of JSON.
    type Output: Serialize;
    /// The parameters, decoded from JSON; [`NoParameters`] for none. Derive `schemars::JsonSchema`, so that the host can
    /// show them, and use `#[serde(deny_unknown_fields)]`, so that a misspelt one is refused.
    type Parameters: DeserializeOwned + JsonSchema;

    /// Which timeouts the rule sets.
    const TIMEOUT: TimeoutKind = TimeoutKind::None;
    /// Whether outputs add to or replace earlier ones. A declaration; it changes nothing in how the rule runs.
    const OUTPUT_MODE: OutputMode = OutputMode::Append;
    /// How many outputs a call writes. [`Map`](crate::Map) alone says anything else.
    #[doc(hidden)]
    const FORM: Form = Form::FlatMap;
    /// How states are encoded.
    const STATE_FORMAT: StateFormat = StateFormat::MessagePack;
    /// The number, from 1, of the state's shape. Raise it when older versions of the rule could not read the new shape.
    const STATE_SCHEMA: u32 = 1;
    /// The numbers of the shapes that this version can read, its own included.
    const READABLE_SCHEMAS: &'static [u32] = &[Self::STATE_SCHEMA];

    /// Checks the parameters and makes the rule.
    fn new(parameters: Self::Parameters) -> Result<Self>;

    /// Handles one key: all its events of this batch in source order, or its timeout ([`GroupState::has_timed_out`],
    /// without events).
    ///
    /// Nothing is kept when it returns an error: state and timeout stay as they were, and the events go to the dead
    /// letters with the error's text. Only a timeout whose own call failed is gone: it would be due again for ever.
    fn call<'e>(
        &self,
        key: &str,
        events: Events<'e, Self::Event<'e>>,
        state: &mut GroupState<'_, Self::State>,
        outputs: &mut Outputs<Self::Output>,
    ) -> Result<()>;
}

/// The parameters of a rule that has none. Any parameter is refused by name.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParameters {}

/// Which timeouts a rule sets: Spark's `GroupStateTimeout`, and either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutKind {
    /// Spark's `NoTimeout`.
    None,
    /// Spark's `ProcessingTimeTimeout`: [`GroupState::set_timeout_duration`].
    ProcessingTime,
    /// Spark's `EventTimeTimeout`: [`GroupState::set_timeout_timestamp`]. The input must have an event time, and late
    /// events are dropped.
    EventTime,
    /// One timeout for each key, on the clock that the call chooses. Spark has no such kind.
    Either,
}

impl TimeoutKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TimeoutKind::None => "none",
            TimeoutKind::ProcessingTime => "processing-time",
            TimeoutKind::EventTime => "event-time",
            TimeoutKind::Either => "either",
        }
    }

    pub(crate) fn allows_processing_time(self) -> bool {
        matches!(self, TimeoutKind::ProcessingTime | TimeoutKind::Either)
    }

    pub(crate) fn allows_event_time(self) -> bool {
        matches!(self, TimeoutKind::EventTime | TimeoutKind::Either)
    }
}

/// Spark's two forms of a stateful function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any number of outputs for each call: `flatMapGroupsWithState`, a [`Rule`].
    FlatMap,
    /// Exactly one output for each call: `mapGroupsWithState`, a [`MapRule`](crate::MapRule).
    Map,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::FlatMap => "flat-map",
            Form::Map => "map",
        }
    }
}

/// Spark's output modes of a stateful operator. Its `Complete` is for aggregations alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Outputs add to earlier ones.
    Append,
    /// Outputs replace earlier ones of the same key.
    Update,
}

impl OutputMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            OutputMode::Append => "append",
            OutputMode::Update => "update",
        }
    }
}

/// How states are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateFormat {
    /// MessagePack with field names: compact, and fields can be added with `#[serde(default)]`.
    MessagePack,
    /// JSON: larger, and readable in the state file as it is.
    Json,
}

impl StateFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            StateFormat::MessagePack => "msgpack",
            StateFormat::Json => "json",
        }
    }
}
