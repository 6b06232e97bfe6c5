//! Events: taken, read back, followed; and single ones that are decided.

use super::model::{Appended, Decision};
use super::{Answer, Caller, EventsBody, EventsPage, EventsQuery, Service, StreamTail, Wake, not_yet};

impl Service {
    /// Takes events. Returns when they are on the disk.
    pub fn append(&self, caller: &Caller, stream: &str, body: &EventsBody<'_>) -> Answer<Appended> {
        let _ = (caller, stream, body);
        not_yet()
    }

    /// Reads events back.
    pub fn read_events(&self, caller: &Caller, stream: &str, query: &EventsQuery) -> Answer<EventsPage> {
        let _ = (caller, stream, query);
        not_yet()
    }

    /// Follows a stream from its end on, all partitions.
    pub fn tail_stream(&self, caller: &Caller, stream: &str, wake: Wake) -> Answer<StreamTail> {
        let _ = (caller, stream, wake);
        not_yet()
    }

    /// Puts one event through a rule, and waits for what it says, at most the rule's deadline.
    pub fn decide(&self, caller: &Caller, rule: &str, body: &EventsBody<'_>) -> Answer<Decision> {
        let _ = (caller, rule, body);
        not_yet()
    }
}
