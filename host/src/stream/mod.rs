//! Streams: durable, partitioned, append-only logs of events, which many rules read, each from its own positions.
//!
//! - [`StreamLog`] is one stream; [`NewEvent`] is what goes in, [`AppendRequest`] how, [`StoredEvent`] what comes out.
//! - [`decode`] makes events of what is posted, [`StreamSource`] reads a stream for a rule, and [`crate::sink::StreamSink`] puts a
//!   rule's outputs into one.

mod append;
mod block;
mod cache;
pub mod decode;
mod log;
mod new_event;
mod settings;
mod source;
mod subscription;

pub use append::{AppendError, AppendRequest, Appended, InvalidEvent, Placed};
pub use cache::BlockCache;
pub use log::{Held, Retained, StoredEvent, StreamLog};
pub use new_event::{EVENT_DEPTH_MAX, NewEvent, Refusal};
pub use settings::{Dedup, Retention, StreamLimits, StreamSettings};
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
