//! [`StreamSettings`]: what users choose for a stream; [`StreamLimits`]: what the host chooses for all.

use super::BlockCache;
use crate::source::file::{RECORD_BYTES_MAX, RECORD_BYTES_MAX_DEFAULT};
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::time::Duration;

/// How many partitions a stream may have. Each is a folder, and an append that reaches all of them syncs a file in each.
pub const PARTITIONS_MAX: u32 = 64;
/// The default of [`Dedup::events`]: more than are sent between a request and its repetition, in 4 MB of memory.
pub const IDS_REMEMBERED_DEFAULT: usize = 100_000;
/// What [`Dedup::events`] may be at most.
pub const IDS_REMEMBERED_MAX: usize = 10_000_000;

/// What users choose for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    /// In how many parts the stream is kept. Never changes.
    pub partitions: u32,
    /// JSON Pointer to what events are spread over the partitions by. Needed when there are several; never changes.
    pub key: Option<String>,
    /// When events are deleted.
    pub retention: Retention,
    /// Longer events are refused.
    pub event_bytes_max: usize,
    /// How events that come again are known.
    pub dedup: Dedup,
}

/// When events are deleted: whole segments, oldest first, and never one that somebody still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// When they are older than this.
    pub age: Option<Duration>,
    /// When the stream is larger than this.
    pub bytes: Option<u64>,
}

/// How events that come again are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dedup {
    /// JSON Pointer to an id. Events that have none there are taken as they are. Without a pointer only events that bring an id of
    /// their own, as CloudEvents do, are known again.
    pub id: Option<String>,
    /// So many of the last ids are remembered, and as many `Idempotency-Key`s.
    pub events: usize,
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings {
            partitions: 1,
            key: None,
            retention: Retention::default(),
            event_bytes_max: RECORD_BYTES_MAX_DEFAULT,
            dedup: Dedup::default(),
        }
    }
}

impl Default for Dedup {
    fn default() -> Self {
        Dedup { id: None, events: IDS_REMEMBERED_DEFAULT }
    }
}

impl StreamSettings {
    /// Refuses settings that no stream can have, and names the field.
    pub fn check(&self) -> Result<()> {
        let partitions = self.partitions;
        ensure!(
            (1..=PARTITIONS_MAX).contains(&partitions),
            "partitions is {partitions}; it must be between 1 and {PARTITIONS_MAX}"
        );
        ensure!(
            partitions == 1 || self.key.is_some(),
            "key is missing: a stream of {partitions} partitions needs a JSON Pointer to what its events are spread by"
        );
        let bytes = self.event_bytes_max;
        ensure!(
            (1..=RECORD_BYTES_MAX).contains(&bytes),
            "event_bytes_max is {bytes}; it must be between 1 and {RECORD_BYTES_MAX}"
        );
        let ids = self.dedup.events;
        ensure!(ids <= IDS_REMEMBERED_MAX, "{ids} ids cannot be remembered; {IDS_REMEMBERED_MAX} are possible");
        Ok(())
    }
}

/// What the host chooses for all streams.
#[derive(Clone)]
pub struct StreamLimits {
    /// A segment that has reached this size is followed by another one. Only whole segments can be deleted.
    pub segment_bytes: u64,
    /// A block that has reached this size takes no further event. Blocks are read, unpacked and cached as a whole.
    pub block_bytes: usize,
    /// Bytes of requests that may wait for the disk. Beyond it requests are refused until some are done.
    pub waiting_bytes_max: usize,
    /// Blocks that were read or written lately, of all streams.
    pub cache: Arc<BlockCache>,
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits {
            segment_bytes: 64 << 20,
            block_bytes: 1 << 20,
            waiting_bytes_max: 64 << 20,
            cache: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_are_refused_with_the_name_of_the_field() {
        StreamSettings::default().check().expect("the defaults are possible");
        let settings = StreamSettings::default;
        for (settings, part) in [
            (StreamSettings { partitions: 0, ..settings() }, "partitions is 0"),
            (StreamSettings { partitions: PARTITIONS_MAX + 1, ..settings() }, "partitions is 65"),
            (StreamSettings { partitions: 2, ..settings() }, "key is missing"),
            (StreamSettings { event_bytes_max: 0, ..settings() }, "event_bytes_max is 0"),
            (
                StreamSettings { dedup: Dedup { events: IDS_REMEMBERED_MAX + 1, id: None }, ..settings() },
                "cannot be remembered",
            ),
        ] {
            let error = format!("{:#}", settings.check().unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
