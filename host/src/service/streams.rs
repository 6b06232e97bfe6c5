//! Streams: made, changed, deleted.

use super::model::{Stream, StreamSettings};
use super::{Answer, Caller, Put, Service, not_yet};

impl Service {
    /// Makes a stream, or changes what can be changed of it.
    pub fn put_stream(&self, caller: &Caller, name: &str, settings: &StreamSettings) -> Answer<Put<Stream>> {
        let _ = (caller, name, settings);
        not_yet()
    }

    /// The streams of the caller's tenant, in the order of their names.
    pub fn streams(&self, caller: &Caller) -> Answer<Vec<Stream>> {
        let _ = caller;
        not_yet()
    }

    /// A stream.
    pub fn stream(&self, caller: &Caller, name: &str) -> Answer<Stream> {
        let _ = (caller, name);
        not_yet()
    }

    /// Deletes a stream that no rule reads or writes.
    pub fn delete_stream(&self, caller: &Caller, name: &str) -> Answer<()> {
        let _ = (caller, name);
        not_yet()
    }
}
