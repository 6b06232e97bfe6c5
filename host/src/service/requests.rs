//! What is asked and answered besides JSON documents: bodies of events, pages, tails.

use super::model::ReadEvent;
use std::sync::Arc;

/// Called, from any thread, when there may be more to read. Must be quick.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A body of events, as it came.
#[derive(Debug, Clone, Copy)]
pub struct EventsBody<'a> {
    /// `Content-Type`.
    pub content_type: &'a str,
    /// Headers whose names begin with `ce-`: the attributes of a CloudEvent in binary mode. Names in lower case.
    pub cloud_event_headers: &'a [(String, String)],
    /// The bytes.
    pub body: &'a [u8],
    /// `Idempotency-Key`.
    pub idempotency_key: Option<&'a str>,
}

/// What was put, and whether it was not there before.
#[derive(Debug, Clone)]
pub struct Put<T> {
    /// What is there now.
    pub value: T,
    /// Whether it was made: 201 rather than 200.
    pub is_new: bool,
}

/// Events of a partition, in order.
#[derive(Debug, Clone)]
pub struct EventsPage {
    /// The events.
    pub events: Vec<ReadEvent>,
    /// Where to go on reading.
    pub next: u64,
}

/// Which events.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventsQuery {
    /// The partition.
    pub partition: u32,
    /// The number of the first one; absent, or older than what is kept: the first that is there.
    pub from: Option<u64>,
    /// So many at most; absent: [`EVENTS_DEFAULT`]. At most [`EVENTS_MAX`].
    pub limit: Option<usize>,
}

/// Events of a page when nobody says how many.
pub const EVENTS_DEFAULT: usize = 100;
/// Events of a page at most.
pub const EVENTS_MAX: usize = 10_000;

/// How a rule is deleted.
#[derive(Debug, Clone, Default)]
pub struct DeleteRule {
    /// Events that are there are still read and timeouts fire, until no key is left or this time is over, such as `1h`. Absent: it
    /// goes at once.
    pub drain: Option<String>,
}

/// Which lines of the audit.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuditQuery {
    /// Only those with a number above this one.
    pub after: u64,
    /// So many at most; absent: [`EVENTS_DEFAULT`]. At most [`EVENTS_MAX`].
    pub limit: Option<usize>,
}
