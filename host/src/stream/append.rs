//! [`AppendRequest`]: events that go into a stream together, and what becomes of them.

use super::{EventNumber, NewEvent};
use std::fmt;
use std::time::Duration;

/// Events that go into a stream together: unless the process ends in between, all or none.
#[derive(Default)]
pub struct AppendRequest<'a> {
    /// The events, in their order.
    pub events: Vec<NewEvent>,
    /// A request with the same key is taken once; it must hold the same events.
    pub idempotency_key: Option<String>,
    /// Whose outputs the events are: a rule's id and the batch. What this producer gave with a later batch, or with the same one, is
    /// there already, and is dropped. That is remembered as long as the stream is there.
    pub producer: Option<(String, u64)>,
    /// Gets where the events are before anybody can read them. Not called for events that were there already.
    pub on_placed: Option<&'a mut OnPlaced<'a>>,
}

/// Gets where the events of a request are.
pub type OnPlaced<'a> = dyn FnMut(&[Placed]) + 'a;

/// Where an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Which event of the request, from 0.
    pub index: usize,
    /// The partition.
    pub partition: u32,
    /// Its number there.
    pub number: EventNumber,
}

/// The events are on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Appended {
    /// How many were taken.
    pub accepted: u64,
    /// How many were there already, by their ids or because the producer's batch is.
    pub duplicates: u64,
    /// Where those are that were taken, in the order of the request. Of a request that came again with its `Idempotency-Key`: as
    /// the first time.
    pub placed: Vec<Placed>,
    /// Whether the request was known by its `Idempotency-Key`, and nothing was added.
    pub repeated: bool,
}

/// Why nothing was appended.
#[derive(Debug)]
pub enum AppendError {
    /// Some events cannot be taken; no event was.
    Invalid(Vec<InvalidEvent>),
    /// The `Idempotency-Key` is empty or too long.
    InvalidKey(String),
    /// The `Idempotency-Key` belongs to a request with other events.
    KeyReused,
    /// Too much waits for the disk already.
    Busy {
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The disk has no space.
    Full(anyhow::Error),
    /// The disk fails, or holds something that it must not.
    Failed(anyhow::Error),
}

/// An event that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidEvent {
    /// Which event of the request, from 0.
    pub index: usize,
    /// A stable word for machines.
    pub code: &'static str,
    /// What is wrong, for people.
    pub message: String,
}

impl AppendError {
    /// A stable word for machines.
    pub fn code(&self) -> &'static str {
        match self {
            AppendError::Invalid(events) => events.first().map_or("invalid-event", |event| event.code),
            AppendError::InvalidKey(_) => "idempotency-key-invalid",
            AppendError::KeyReused => "idempotency-key-reused",
            AppendError::Busy { .. } => "stream-busy",
            AppendError::Full(_) => "no-space",
            AppendError::Failed(_) => "stream-failed",
        }
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::Invalid(events) => {
                let Some(first) = events.first() else { return f.write_str("there is an invalid event") };
                write!(f, "event {}: {}", first.index, first.message)?;
                match events.len() - 1 {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
            AppendError::InvalidKey(message) => f.write_str(message),
            AppendError::KeyReused => f.write_str(
                "the Idempotency-Key was used for a request with other events; use a new key for each request, and the same one \
                 only to repeat it",
            ),
            AppendError::Busy { retry_after } => {
                write!(f, "too many events wait for the disk; try again in {} ms", retry_after.as_millis())
            }
            AppendError::Full(error) => write!(f, "there is no space for the events: {error:#}"),
            AppendError::Failed(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for AppendError {}
