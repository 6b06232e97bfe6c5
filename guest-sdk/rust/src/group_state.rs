//! [`GroupState`]: the state of one key during one call, with the methods of Spark's.

use crate::{Interval, StateError, StateFormat, TimeoutKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::marker::PhantomData;

/// The state of one key during one call: Spark's `GroupState[S]`.
///
/// It holds the encoded state. [`GroupState::get`] decodes a value that is the caller's own, and changing that value
/// changes nothing until [`GroupState::update`] encodes it.
///
/// The timeout of the key is cleared by every call: a call that wants one sets it, also to keep the one that was there.
pub struct GroupState<'a, S> {
    /// What the key had when the call began.
    given: Option<Cow<'a, [u8]>>,
    /// What `update` wrote last; its buffer is used again for the next group.
    pub(crate) written: Vec<u8>,
    pub(crate) change: Change,
    pub(crate) timeout: Option<Timeout>,
    pub(crate) context: Context,
    state: PhantomData<fn() -> S>,
}

/// When a key wants to be called again: strictly after `at_ms` on `clock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// The clock that the time is on.
    pub clock: TimeoutClock,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// The two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutClock {
    /// The time of the batch.
    ProcessingTime,
    /// The watermark.
    EventTime,
}

/// What the call did to the state so far. The numbers are the contract's verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Change {
    Keep = 0,
    Update = 1,
    Remove = 2,
}

/// What a call knows about its surroundings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub timed_out: bool,
    /// Called with state that was imported.
    pub initial: bool,
    /// The call is part of a batch query, in which timeouts have no effect.
    pub batch_query: bool,
    pub timeout_kind: TimeoutKind,
    pub format: StateFormat,
    pub processing_time_ms: i64,
    /// None when the input has no watermark.
    pub watermark_ms: Option<i64>,
}

impl<S: Serialize + DeserializeOwned> GroupState<'_, S> {
    /// Whether the key has state now: given to the call or updated in it, and not removed since.
    pub fn exists(&self) -> bool {
        self.bytes().is_some()
    }

    /// The state; [`StateError::NoSuchElement`] when there is none.
    pub fn get(&self) -> Result<S, StateError> {
        self.get_option()?.ok_or_else(|| {
            StateError::NoSuchElement("there is no state: check exists() first, or use get_option()".into())
        })
    }

    /// The state, or none. Spark's `getOption`.
    pub fn get_option(&self) -> Result<Option<S>, StateError> {
        self.bytes().map(|bytes| decode(self.context.format, bytes)).transpose()
    }

    /// Sets the state. Undoes an earlier [`GroupState::remove`] of this call and leaves the timeout alone.
    ///
    /// A value that encodes as null is an illegal argument, as in Spark.
    pub fn update(&mut self, state: &S) -> Result<(), StateError> {
        encode(self.context.format, state, &mut self.written)?;
        self.change = Change::Update;
        Ok(())
    }

    /// Removes the state. May be repeated, may be followed by an update, and leaves the timeout of this call alone.
    pub fn remove(&mut self) {
        self.change = Change::Remove;
    }

    /// Whether this call is for the key's timeout. The call has no events then.
    pub fn has_timed_out(&self) -> bool {
        self.context.timed_out
    }

    /// Whether the state that this call began with was imported, by `--initial-state` or `keyfold state import`, since the key was
    /// last called. The call has the key's events of this batch, or none. Spark has initial states and no such method: its
    /// functions cannot tell such a call from others.
    pub fn is_initial(&self) -> bool {
        self.context.initial
    }

    /// Sets the timeout to the batch's time plus this length, in processing time. The last call wins.
    ///
    /// Text is parsed first. Then, unsupported unless the rule's kind is `ProcessingTime` or `Either`; illegal unless
    /// the length is positive. An error leaves the timeout that this call set before. In a batch query it is checked and has no
    /// effect.
    pub fn set_timeout_duration(&mut self, duration: impl Interval) -> Result<(), StateError> {
        let duration_ms = duration.to_millis()?;
        if !self.context.timeout_kind.allows_processing_time() {
            return Err(StateError::UnsupportedOperation(format!(
                "cannot set a timeout duration: the rule's timeout kind is {}, not processing-time or either",
                self.context.timeout_kind.name()
            )));
        }
        if duration_ms <= 0 {
            return Err(StateError::IllegalArgument(format!("the timeout duration {duration_ms} ms is not positive")));
        }
        let at_ms = self.context.processing_time_ms.saturating_add(duration_ms);
        self.set_timeout(Timeout { clock: TimeoutClock::ProcessingTime, at_ms });
        Ok(())
    }

    /// Sets the timeout to this event time, in milliseconds since 1970. It is due when the watermark lies strictly after.
    /// The last call wins.
    ///
    /// Unsupported unless the rule's kind is `EventTime` or `Either`; illegal unless the time is positive and not before
    /// the current watermark, if there is one. An error leaves the timeout that this call set before. In a batch query it is checked
    /// and has no effect.
    pub fn set_timeout_timestamp(&mut self, at_ms: i64) -> Result<(), StateError> {
        self.set_timeout_timestamp_after(at_ms, 0)
    }

    /// As [`GroupState::set_timeout_timestamp`], with a length added; it is parsed after the kind is checked.
    /// Spark's `setTimeoutTimestamp(timestampMs, additionalDuration)`.
    pub fn set_timeout_timestamp_after(&mut self, at_ms: i64, additional: impl Interval) -> Result<(), StateError> {
        if !self.context.timeout_kind.allows_event_time() {
            return Err(StateError::UnsupportedOperation(format!(
                "cannot set a timeout timestamp: the rule's timeout kind is {}, not event-time or either",
                self.context.timeout_kind.name()
            )));
        }
        let at_ms = at_ms.saturating_add(additional.to_millis()?);
        if at_ms <= 0 {
            return Err(StateError::IllegalArgument(format!("the timeout timestamp {at_ms} is not positive")));
        }
        // Without a watermark no time lies before it. In a stream the host then refuses the timeout, which would never be due.
        if let Some(watermark_ms) = self.watermark_ms().filter(|&watermark_ms| at_ms < watermark_ms) {
            return Err(StateError::IllegalArgument(format!(
                "the timeout timestamp {at_ms} is before the current watermark {watermark_ms}"
            )));
        }
        self.set_timeout(Timeout { clock: TimeoutClock::EventTime, at_ms });
        Ok(())
    }

    /// The watermark of this batch, in milliseconds since 1970: 0 before it first moved, -1 in a batch query.
    /// Unsupported when the input has no watermark, whatever the timeout kind.
    pub fn current_watermark_ms(&self) -> Result<i64, StateError> {
        self.watermark_ms().ok_or_else(|| {
            StateError::UnsupportedOperation(
                "the input has no watermark: give the field of its event time with --event-time".into(),
            )
        })
    }

    /// The time of this batch, in milliseconds since 1970: the same for every key, partition and re-run.
    pub fn current_processing_time_ms(&self) -> i64 {
        self.context.processing_time_ms
    }

    fn watermark_ms(&self) -> Option<i64> {
        const IN_A_BATCH_QUERY: i64 = -1;
        self.context.watermark_ms.map(|ms| if self.context.batch_query { IN_A_BATCH_QUERY } else { ms })
    }

    /// Nothing is called after a batch query, so it has no use for a timeout.
    fn set_timeout(&mut self, timeout: Timeout) {
        if !self.context.batch_query {
            self.timeout = Some(timeout);
        }
    }
}

impl<'a, S> GroupState<'a, S> {
    pub(crate) fn new(given: Option<Cow<'a, [u8]>>, mut buffer: Vec<u8>, context: Context) -> Self {
        buffer.clear();
        GroupState { given, written: buffer, change: Change::Keep, timeout: None, context, state: PhantomData }
    }

    /// The encoded state as it is now.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self.change {
            Change::Keep => self.given.as_deref(),
            Change::Update => Some(&self.written),
            Change::Remove => None,
        }
    }
}

pub(crate) fn encode<S: Serialize>(format: StateFormat, state: &S, buffer: &mut Vec<u8>) -> Result<(), StateError> {
    // Behind what an earlier update wrote, which must survive a failure of this one.
    let start = buffer.len();
    let encoded = match format {
        StateFormat::MessagePack => rmp_serde::encode::write_named(buffer, state).map_err(|error| error.to_string()),
        StateFormat::Json => serde_json::to_writer(&mut *buffer, state).map_err(|error| error.to_string()),
    };
    const MESSAGEPACK_NIL: &[u8] = &[0xc0];
    let refused = match encoded {
        Err(error) => Some(StateError::Codec(format!("the state does not encode: {error}"))),
        Ok(()) if matches!(&buffer[start..], MESSAGEPACK_NIL | b"null") => {
            Some(StateError::IllegalArgument("the state is null: call remove() to have none".into()))
        }
        Ok(()) => None,
    };
    match refused {
        Some(error) => {
            buffer.truncate(start);
            Err(error)
        }
        None => {
            buffer.drain(..start);
            Ok(())
        }
    }
}

pub(crate) fn decode<S: DeserializeOwned>(format: StateFormat, bytes: &[u8]) -> Result<S, StateError> {
    let decoded = match format {
        StateFormat::MessagePack => rmp_serde::from_slice(bytes).map_err(|error| error.to_string()),
        StateFormat::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
    };
    decoded.map_err(|error| StateError::Codec(format!("the state does not decode: {error}")))
}
