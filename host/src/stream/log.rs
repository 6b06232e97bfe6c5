//! [`StreamLog`]: one stream.

use super::append::{AppendError, AppendRequest, Appended, Placed};
use super::block::Block;
use super::subscription::{Subscribers, Subscription, Wake};
use super::{EventNumber, StreamLimits, StreamSettings};
use crate::clock::Clock;
use crate::event::{Millis, Position};
use crate::source::ReadLimit;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One stream. Shared by whoever appends and whoever reads. Its folder must belong to this process alone.
pub struct StreamLog {
    folder: PathBuf,
    clock: Clock,
    subscribers: Arc<Subscribers>,
    parts: Mutex<Vec<Vec<Arc<Block>>>>,
}

/// An event as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number in the partition.
    pub number: EventNumber,
    /// When it was taken.
    pub received: Millis,
    /// The event.
    pub json: Vec<u8>,
}

/// What [`StreamLog::retain`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retained {
    /// Files that were deleted.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Events in them.
    pub events: u64,
    /// What would have been deleted, had nobody needed it.
    pub held: Vec<Held>,
}

/// Events that are past their retention and stay because somebody needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Who needs them.
    pub by: String,
    /// In which partition.
    pub partition: u32,
    /// Bytes of the files that stay for it.
    pub bytes: u64,
}

impl StreamLog {
    /// Opens or makes a stream in a folder.
    pub fn open(folder: &Path, settings: StreamSettings, clock: Clock, _limits: StreamLimits) -> Result<Self> {
        settings.check()?;
        Ok(StreamLog {
            folder: folder.to_owned(),
            clock,
            subscribers: Arc::default(),
            parts: Mutex::new(vec![Vec::new(); settings.partitions as usize]),
        })
    }

    /// Appends events. Returns when they are on the disk. Requests that come meanwhile share the next sync.
    pub fn append(&self, request: AppendRequest<'_>) -> Result<Appended, AppendError> {
        let mut placed = Vec::new();
        {
            let mut parts = self.lock();
            let blocks = &mut parts[0];
            let start = blocks.last().map_or_else(Position::default, |block| block.end());
            let mut block = Block { start, received: self.clock.now(), ..Block::default() };
            for (index, event) in request.events.iter().enumerate() {
                placed.push(Placed { index, partition: 0, number: EventNumber(start.line + index as u64) });
                block.text.extend_from_slice(event.json());
                block.text.push(b'\n');
                block.ends.push(block.text.len() as u32);
            }
            if let Some(on_placed) = request.on_placed {
                on_placed(&placed);
            }
            blocks.push(Arc::new(block));
        }
        self.subscribers.wake();
        Ok(Appended { accepted: placed.len() as u64, duplicates: 0, placed, repeated: false })
    }

    /// Events of a partition from this number on, or from the first one that is still there. None when there are no more.
    pub fn read(&self, partition: u32, from: EventNumber, limit: ReadLimit) -> Result<Vec<StoredEvent>> {
        self.check_partition(partition)?;
        let mut events: Vec<StoredEvent> = Vec::new();
        let mut number = from.max(EventNumber(self.starts()[partition as usize].line));
        let mut bytes = 0;
        while let Some(block) = self.block(partition, number)? {
            for index in block.index_of(number)..block.ends.len() {
                let json = &block.text[block.start_of(index)..block.ends[index] as usize - 1];
                let is_full = events.len() >= limit.records_max || bytes + json.len() > limit.bytes_max;
                if is_full && !events.is_empty() {
                    return Ok(events);
                }
                bytes += json.len();
                events.push(StoredEvent { number, received: block.received, json: json.to_vec() });
                number.0 += 1;
            }
        }
        Ok(events)
    }

    /// The block that holds this event; none when there is no such event yet.
    pub(super) fn block(&self, partition: u32, number: EventNumber) -> Result<Option<Arc<Block>>> {
        let parts = self.lock();
        let found =
            parts[partition as usize].iter().find(|block| (block.start.line..block.end().line).contains(&number.0));
        Ok(found.cloned())
    }

    /// Where each partition begins: at the first event that is still there.
    pub fn starts(&self) -> Vec<Position> {
        self.lock().iter().map(|_| Position::default()).collect()
    }

    /// Where each partition ends: there the next event will be.
    pub fn ends(&self) -> Vec<Position> {
        let end = |blocks: &Vec<Arc<Block>>| blocks.last().map_or_else(Position::default, |block| block.end());
        self.lock().iter().map(end).collect()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.ends().iter().map(|end| end.offset).sum()
    }

    /// How many partitions it has.
    pub fn partitions(&self) -> u32 {
        self.lock().len() as u32
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Not later than when the oldest event was taken that is still there; none when there is no event.
    pub fn oldest(&self) -> Option<Millis> {
        self.lock().iter().filter_map(|blocks| Some(blocks.first()?.received)).min()
    }

    /// Calls `wake` after each append that can be read, as long as the subscription lives.
    pub fn subscribe(&self, wake: Wake) -> Subscription {
        self.subscribers.add(wake)
    }

    /// Deletes what is past its retention and needed by nobody. `needed`: who reads the stream, and where in each partition its
    /// reading goes on; what lies there and after it stays.
    pub fn retain(&self, _needed: &[(String, Vec<Position>)]) -> Result<Retained> {
        Ok(Retained::default())
    }

    /// Changes the settings. Partitions and key cannot change.
    pub fn set_settings(&self, settings: StreamSettings) -> Result<()> {
        settings.check()
    }

    fn check_partition(&self, partition: u32) -> Result<()> {
        let count = self.partitions();
        ensure!(partition < count, "there is no partition {partition}; the stream has {count}");
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<Arc<Block>>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
