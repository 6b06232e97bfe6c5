//! Calling a rule without a host: Spark's `TestGroupState`, and a small stream over it.
//!
//! ```
//! # use keyfold_sdk::prelude::*;
//! # struct Count;
//! # impl Rule for Count {
//! #     type Event<'e> = serde_json::Value; type State = u64; type Output = u64; type Parameters = NoParameters;
//! #     fn new(_: NoParameters) -> Result<Self> { Ok(Count) }
//! #     fn call(&self, _: &str, events: Events<serde_json::Value>, state: &mut GroupState<u64>, out: &mut Outputs<u64>) -> Result<()> {
//! #         let count = state.get_option()?.unwrap_or(0) + events.len() as u64;
//! #         state.update(&count)?;
//! #         out.emit(&count)
//! #     }
//! # }
//! use keyfold_sdk::testing::{self, TestGroupState};
//!
//! let mut state = TestGroupState::<u64>::create(Some(&2), TimeoutKind::None, 1_000, None, false).unwrap();
//! let outputs = testing::call(&Count, "u1", &[serde_json::json!({})], &mut state).unwrap();
//! assert_eq!(outputs, [serde_json::json!(3)]);
//! assert!(state.is_updated() && state.get().unwrap() == 3);
//! ```

use crate::group_state::{Change, Context, encode};
use crate::{
    Error, Events, GroupState, Migrate, Outputs, Result, Rule, StateError, StateFormat, Timeout, TimeoutClock,
    TimeoutKind,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// Rewrites a state as a host lets a rule do it with the states of earlier versions.
pub fn migrate<R: Rule + Migrate<R::State>>(from_schema: u32, old: &impl Serialize) -> Result<R::State> {
    let mut bytes = Vec::new();
    encode(R::STATE_FORMAT, old, &mut bytes)?;
    let mut migrated = Vec::new();
    crate::migration::migrate_one::<R>(from_schema, &bytes, &mut migrated)?;
    Ok(crate::group_state::decode(R::STATE_FORMAT, &migrated)?)
}

/// A [`GroupState`] that a test makes and looks into: Spark's `TestGroupState`. Dereferences to the `GroupState`.
pub struct TestGroupState<S>(GroupState<'static, S>);

impl<S: Serialize + DeserializeOwned> TestGroupState<S> {
    /// A state as a call would find it.
    ///
    /// As in Spark, a negative batch time, a negative watermark, and a timeout of a rule that sets none are refused.
    pub fn create(
        state: Option<&S>,
        timeout_kind: TimeoutKind,
        batch_time_ms: i64,
        watermark_ms: Option<i64>,
        has_timed_out: bool,
    ) -> Result<Self, StateError> {
        if let Some(watermark_ms) = watermark_ms.filter(|&ms| ms < 0) {
            return Err(StateError::IllegalArgument(format!("the watermark {watermark_ms} is negative")));
        }
        if has_timed_out && timeout_kind == TimeoutKind::None {
            return Err(StateError::UnsupportedOperation("a rule without timeouts cannot time out".into()));
        }
        let context = Context { timed_out: has_timed_out, watermark_ms, ..plain_context(timeout_kind, batch_time_ms) };
        Self::with_context(state, context)
    }

    /// A state as the call for an imported one would find it: [`GroupState::is_initial`] holds. Spark's class has no such method.
    pub fn create_initial(
        state: &S,
        timeout_kind: TimeoutKind,
        batch_time_ms: i64,
        watermark_ms: Option<i64>,
    ) -> Result<Self, StateError> {
        let mut made = Self::create(Some(state), timeout_kind, batch_time_ms, watermark_ms, false)?;
        made.0.context.initial = true;
        Ok(made)
    }

    /// A state as a call in a batch query would find it: legal timeouts have no effect, and the watermark is -1 or none. Spark has
    /// this in `GroupStateImpl.createForBatch`, where a state cannot be given.
    pub fn create_for_batch(
        state: Option<&S>,
        timeout_kind: TimeoutKind,
        batch_time_ms: i64,
        has_watermark: bool,
    ) -> Result<Self, StateError> {
        let context = plain_context(timeout_kind, batch_time_ms);
        Self::with_context(state, Context { batch_query: true, watermark_ms: has_watermark.then_some(-1), ..context })
    }

    fn with_context(state: Option<&S>, context: Context) -> Result<Self, StateError> {
        if context.processing_time_ms < 0 {
            let message = format!("the batch time {} is negative", context.processing_time_ms);
            return Err(StateError::IllegalArgument(message));
        }
        let given = state.map(|state| encoded(context.format, state)).transpose()?;
        Ok(TestGroupState(GroupState::new(given.map(Cow::Owned), Vec::new(), context)))
    }

    /// Whether the call set the state and did not remove it afterwards.
    pub fn is_updated(&self) -> bool {
        self.0.change == Change::Update
    }

    /// Whether the call removed the state and did not set it afterwards.
    pub fn is_removed(&self) -> bool {
        self.0.change == Change::Remove
    }

    /// Whether the call set a timeout.
    pub fn is_timeout_updated(&self) -> bool {
        self.0.timeout.is_some()
    }

    /// The timeout that the call set. Spark's `getTimeoutTimestampMs`, with the clock.
    pub fn timeout(&self) -> Option<Timeout> {
        self.0.timeout
    }
}

impl<S> Deref for TestGroupState<S> {
    type Target = GroupState<'static, S>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<S> DerefMut for TestGroupState<S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// A call with events in a stream without a watermark.
fn plain_context(timeout_kind: TimeoutKind, processing_time_ms: i64) -> Context {
    Context {
        timed_out: false,
        initial: false,
        batch_query: false,
        timeout_kind,
        format: StateFormat::MessagePack,
        processing_time_ms,
        watermark_ms: None,
    }
}

/// Calls the rule for one key and returns its outputs as JSON. Events have no event time; see [`call_at`].
pub fn call<R: Rule>(
    rule: &R,
    key: &str,
    events: &[Value],
    state: &mut TestGroupState<R::State>,
) -> Result<Vec<Value>> {
    call_with(rule, key, events, &[], &mut state.0)
}

/// As [`call`], with the event time of each event in milliseconds since 1970.
pub fn call_at<R: Rule>(
    rule: &R,
    key: &str,
    events: &[(i64, Value)],
    state: &mut TestGroupState<R::State>,
) -> Result<Vec<Value>> {
    let times_ms: Vec<i64> = events.iter().map(|(time_ms, _)| *time_ms).collect();
    let events: Vec<Value> = events.iter().map(|(_, event)| event.clone()).collect();
    call_with(rule, key, &events, &times_ms, &mut state.0)
}

/// A rule over many keys with both clocks, for property tests: each step is a micro-batch, and timeouts fire as the host
/// fires them. There is no watermark delay and no late event: the test moves the clocks.
pub struct TestStream<R: Rule> {
    rule: R,
    keys: BTreeMap<String, Row>,
    processing_time_ms: i64,
    watermark_ms: i64,
}

/// What the stream keeps for one key: encoded state, timeout.
#[derive(Clone, Default)]
struct Row {
    state: Option<Vec<u8>>,
    timeout: Option<Timeout>,
}

impl<R: Rule> TestStream<R> {
    /// No key has state; processing time begins here, and the watermark at 0.
    pub fn new(rule: R, processing_time_ms: i64) -> Self {
        TestStream { rule, keys: BTreeMap::new(), processing_time_ms, watermark_ms: 0 }
    }

    /// One batch with these events of one key, each with its event time.
    pub fn events(&mut self, key: &str, events: &[(i64, Value)]) -> Result<Vec<Value>> {
        self.call(key, events, false)
    }

    /// Moves the watermark on and fires what is due. Returns the outputs.
    pub fn advance_event_to(&mut self, watermark_ms: i64) -> Result<Vec<Value>> {
        self.watermark_ms = self.watermark_ms.max(watermark_ms);
        self.fire()
    }

    /// Moves processing time on and fires what is due. Returns the outputs.
    pub fn advance_wall_to(&mut self, processing_time_ms: i64) -> Result<Vec<Value>> {
        self.processing_time_ms = self.processing_time_ms.max(processing_time_ms);
        self.fire()
    }

    /// The state of a key.
    pub fn state(&self, key: &str) -> Result<Option<R::State>> {
        Ok(self.group_state(key, false).get_option()?)
    }

    /// The timeout of a key.
    pub fn timeout(&self, key: &str) -> Option<Timeout> {
        self.keys.get(key).and_then(|row| row.timeout)
    }

    /// The keys that have state or a timeout.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Timeouts are due strictly after their time; each key is called at most once.
    fn fire(&mut self) -> Result<Vec<Value>> {
        let due = |timeout: &Timeout| match timeout.clock {
            TimeoutClock::ProcessingTime => timeout.at_ms < self.processing_time_ms,
            TimeoutClock::EventTime => timeout.at_ms < self.watermark_ms,
        };
        let keys: Vec<String> = self
            .keys
            .iter()
            .filter(|(_, row)| row.timeout.as_ref().is_some_and(due))
            .map(|(key, _)| key.clone())
            .collect();
        let mut outputs = Vec::new();
        for key in keys {
            outputs.extend(self.call(&key, &[], true)?);
        }
        Ok(outputs)
    }

    fn call(&mut self, key: &str, events: &[(i64, Value)], timed_out: bool) -> Result<Vec<Value>> {
        let times_ms: Vec<i64> = events.iter().map(|(time_ms, _)| *time_ms).collect();
        let events: Vec<Value> = events.iter().map(|(_, event)| event.clone()).collect();
        let mut state = self.group_state(key, timed_out);
        let outputs = call_with(&self.rule, key, &events, &times_ms, &mut state)?;
        let row = Row { state: state.bytes().map(<[u8]>::to_vec), timeout: state.timeout };
        match row {
            Row { state: None, timeout: None } => self.keys.remove(key),
            row => self.keys.insert(key.to_owned(), row),
        };
        Ok(outputs)
    }

    fn group_state(&self, key: &str, timed_out: bool) -> GroupState<'static, R::State> {
        let context = Context {
            timed_out,
            format: R::STATE_FORMAT,
            watermark_ms: Some(self.watermark_ms),
            ..plain_context(R::TIMEOUT, self.processing_time_ms)
        };
        let given = self.keys.get(key).and_then(|row| row.state.clone());
        GroupState::new(given.map(Cow::Owned), Vec::new(), context)
    }
}

fn call_with<R: Rule>(
    rule: &R,
    key: &str,
    events: &[Value],
    times_ms: &[i64],
    state: &mut GroupState<'_, R::State>,
) -> Result<Vec<Value>> {
    let mut payloads = String::new();
    let mut ends = Vec::new();
    for event in events {
        payloads.push_str(&serde_json::to_string(event)?);
        ends.push(u32::try_from(payloads.len()).map_err(|_| Error::new("the events are over 4 GiB"))?);
    }
    let mut outputs = Outputs::new();
    rule.call(key, Events::new(&payloads, &ends, 0, times_ms), state, &mut outputs)?;
    let mut start = 0;
    let decode = |&end: &u32| {
        let output = serde_json::from_slice(&outputs.bytes[start..end as usize]);
        start = end as usize;
        Ok(output?)
    };
    outputs.ends.iter().map(decode).collect()
}

fn encoded<S: Serialize>(format: StateFormat, state: &S) -> Result<Vec<u8>, StateError> {
    let mut bytes = Vec::new();
    encode(format, state, &mut bytes)?;
    Ok(bytes)
}
