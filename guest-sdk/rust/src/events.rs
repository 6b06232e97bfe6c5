//! [`Events`]: the events of one key in one batch.

use crate::{Error, Result};
use serde::Deserialize;
use std::marker::PhantomData;
use std::ops::Deref;

/// The events of one key in one batch, in source order, each decoded when it is asked for.
///
/// An event that does not decode is an error that names it; `?` then fails the group.
#[derive(Clone)]
pub struct Events<'e, E> {
    payloads: &'e str,
    /// End offsets of the events in `payloads`; `start` is where the first one begins.
    ends: &'e [u32],
    start: usize,
    /// Empty when the input has no event time.
    times_ms: &'e [i64],
    next: usize,
    event: PhantomData<fn() -> E>,
}

/// One decoded event, and its event time. Dereferences to the event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<E> {
    event: E,
    time_ms: Option<i64>,
}

impl<'e, E> Events<'e, E> {
    pub(crate) fn new(payloads: &'e str, ends: &'e [u32], start: usize, times_ms: &'e [i64]) -> Self {
        Events { payloads, ends, start, times_ms, next: 0, event: PhantomData }
    }

    /// How many events are left.
    pub fn len(&self) -> usize {
        self.ends.len() - self.next
    }

    /// Whether none is left: always so when the group timed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'e, E: Deserialize<'e>> Iterator for Events<'e, E> {
    type Item = Result<Event<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.next;
        let end = *self.ends.get(number)? as usize;
        let payload = &self.payloads[self.start..end];
        self.start = end;
        self.next += 1;
        let time_ms = self.times_ms.get(number).copied();
        Some(match serde_json::from_str(payload) {
            Ok(event) => Ok(Event { event, time_ms }),
            Err(error) => Err(Error::new(format_args!("event {number} of the group does not decode: {error}"))),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl<'e, E: Deserialize<'e>> ExactSizeIterator for Events<'e, E> {}

impl<E> Event<E> {
    /// The event time in milliseconds since 1970; an error when the input has no event time.
    pub fn time_ms(&self) -> Result<i64> {
        self.time_ms.ok_or_else(|| Error::new("the input has no event time: name its field with --event-time"))
    }

    /// The event itself.
    pub fn into_inner(self) -> E {
        self.event
    }
}

impl<E> Deref for Event<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.event
    }
}
