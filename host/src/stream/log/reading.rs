//! Reading a stream: events by their number, blocks by the events that they hold, and how far a stream goes.

use super::StreamLog;
use crate::event::{Millis, Position};
use crate::extract::{Extracted, TimeFormat};
use crate::source::ReadLimit;
use crate::stream::block::Block;
use crate::stream::keying::Keying;
use crate::stream::partition::Partition;
use crate::stream::{EventNumber, StoredEvent};
use anyhow::{Result, ensure};
use std::sync::Arc;

impl StreamLog {
    /// Events of a partition from this number on, or from the first one that is still there. None when there are no more.
    pub fn read(&self, partition: u32, from: EventNumber, limit: ReadLimit) -> Result<Vec<StoredEvent>> {
        let start = self.partition(partition)?.view().start();
        let mut events: Vec<StoredEvent> = Vec::new();
        let (mut number, mut bytes) = (from.max(EventNumber(start.line)), 0);
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

    /// Where an event is, or will be; of one that is gone, where the first one is that is still there.
    pub fn position_of(&self, partition: u32, number: EventNumber) -> Result<Position> {
        let (start, end) = {
            let view = self.partition(partition)?.view();
            (view.start(), view.end)
        };
        if number.0 <= start.line {
            return Ok(start);
        }
        Ok(self.block(partition, number)?.map_or(end, |block| block.position_of(number)))
    }

    /// The block that holds this event; none when there is no such event yet.
    pub(in crate::stream) fn block(&self, partition: u32, number: EventNumber) -> Result<Option<Arc<Block>>> {
        let place = self.partition(partition)?;
        let (segment, start) = {
            let view = place.view();
            (view.segment_of(number), view.start())
        };
        let gone = || format!("event {number} of partition {partition} is deleted; the first one is {}", start.line);
        let Some(segment) = segment else {
            ensure!(number.0 >= start.line, gone());
            return Ok(None);
        };
        if let Some(block) = self.limits.cache.get((self.number, partition, number.0)) {
            return Ok(Some(block));
        }
        let loaded = segment.load(number).or_else(|error| {
            ensure!(place.view().start().line <= number.0, gone());
            Err(error)
        })?;
        let mut wanted = None;
        for block in loaded.into_iter().map(Arc::new) {
            if block.has(number) {
                wanted = Some(Arc::clone(&block));
            }
            self.limits.cache.put((self.number, partition, block.start.line), block);
        }
        Ok(wanted)
    }

    /// What readers of these fields have in common.
    pub(in crate::stream) fn keying(
        &self,
        key: &[String],
        event_time: Option<&(String, TimeFormat)>,
        members: Option<&[String]>,
    ) -> Result<Arc<Keying>> {
        self.limits.cache.keyings.of(key, event_time, members)
    }

    /// The events of a block of a partition, found once for all readers with this keying.
    pub(in crate::stream) fn events_of(&self, partition: u32, block: &Block, keying: &Keying) -> Arc<Extracted> {
        self.limits.cache.events((self.number, partition, block.start.line), block, keying)
    }

    /// Where each partition begins: at the first event that is still there.
    pub fn starts(&self) -> Vec<Position> {
        self.partitions.iter().map(|partition| partition.view().start()).collect()
    }

    /// Where each partition ends: there the next event will be.
    pub fn ends(&self) -> Vec<Position> {
        self.partitions.iter().map(|partition| partition.view().end).collect()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.view().bytes()).sum()
    }

    /// No event that is there is older; none when there is no event.
    pub fn oldest(&self) -> Option<Millis> {
        let oldest = |partition: &Partition| {
            let view = partition.view();
            view.segments.iter().find(|segment| segment.has_events()).map(|segment| segment.header.created)
        };
        self.partitions.iter().filter_map(oldest).min()
    }
}
