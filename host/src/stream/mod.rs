//! Streams: durable, partitioned, append-only logs of events, which many rules read, each from its own positions.
//!
//! - [`StreamLog`] is one stream; [`NewEvent`] is what goes in, [`AppendRequest`] how, [`StoredEvent`] what comes out.
//! - [`decode`] makes events of what is posted, [`StreamSource`] reads a stream for a rule, and [`crate::sink::StreamSink`] puts a
//!   rule's outputs into one.

mod append;
mod block;
mod bytes;
mod cache;
mod commit;
pub mod decode;
mod keying;
mod log;
mod new_event;
mod notes;
mod open_partition;
mod partition;
mod prepare;
mod queue;
mod remembered;
mod retention;
mod segment;
mod segment_header;
mod settings;
mod source;
mod subscription;
mod writer;

pub use append::{AppendError, AppendRequest, Appended, InvalidEvent, OnPlaced, Placed};
pub use cache::BlockCache;
pub use log::{StoredEvent, StreamCounts, StreamLog};
pub use new_event::{EVENT_DEPTH_MAX, NewEvent, Refusal};
pub use retention::{Held, Retained};
pub use settings::{Dedup, IDS_REMEMBERED_DEFAULT, PARTITIONS_MAX, Retention, StreamLimits, StreamSettings};
pub use source::StreamSource;
pub use subscription::Subscription;

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of an event in its partition, from 0 without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventNumber(pub u64);

impl fmt::Display for EventNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
