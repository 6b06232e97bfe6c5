//! [`BatchInput`]: what a batch read, as events by partition.

use crate::event::{KeyGroup, PartitionId, RecordBatch};
use crate::extract::{Event, Extracted, Extractor};
use crate::state::{DeadEvent, DeadLetter};

/// What a batch read, as events by partition. Shared by the partitions, which copy what they need into their calls.
#[derive(Debug, Default)]
pub struct BatchInput {
    /// The records.
    pub records: RecordBatch,
    /// The events found in them.
    pub extracted: Extracted,
    /// For each partition, the numbers of its events, in source order.
    by_partition: Vec<Vec<u32>>,
}

impl BatchInput {
    /// Finds key and time of each record, and the partition of each event.
    pub fn new(records: RecordBatch, extractor: &Extractor, partitions: u32) -> Self {
        let mut extracted = Extracted::default();
        extractor.extract(&records, &mut extracted);
        let mut by_partition = vec![Vec::new(); partitions as usize];
        for (number, event) in extracted.events.iter().enumerate() {
            by_partition[KeyGroup::of_hash(event.key_hash).partition(partitions).0 as usize].push(number as u32);
        }
        BatchInput { records, extracted, by_partition }
    }

    /// The events of a partition, in source order.
    pub fn events_of(&self, partition: PartitionId) -> &[u32] {
        self.by_partition.get(partition.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// An event by its number.
    pub fn event(&self, number: u32) -> &Event {
        &self.extracted.events[number as usize]
    }

    /// The text of an event.
    pub fn payload(&self, event: &Event) -> &[u8] {
        self.records.text_of(&self.records.records[event.record as usize])
    }

    /// The greatest event time, if there are events.
    pub fn event_time_max_ms(&self) -> Option<i64> {
        self.extracted.events.iter().map(|event| event.time_ms).max()
    }

    /// Records read, rejected ones included.
    pub fn records_read(&self) -> u64 {
        (self.records.records.len() + self.records.rejected.len()) as u64
    }

    /// An event as it goes into a dead letter.
    pub fn dead_event(&self, event: &Event) -> DeadEvent {
        let record = &self.records.records[event.record as usize];
        DeadEvent {
            file: self.records.ranges[record.range as usize].file.clone(),
            line: record.line,
            text: String::from_utf8_lossy(self.records.text_of(record)).into_owned(),
        }
    }

    /// The records that could not become events, in source order, as dead letters.
    pub fn rejected(&self) -> Vec<DeadLetter> {
        let mut rejected: Vec<_> = self.records.rejected.iter().chain(&self.extracted.rejected).collect();
        rejected.sort_by_key(|record| (record.range, record.line));
        let letter = |record: &crate::event::Rejected| DeadLetter {
            reason: record.reason.to_owned(),
            message: record.message.clone(),
            key: None,
            digest: None,
            fuel: None,
            timed_out: false,
            events: vec![DeadEvent {
                file: self.records.ranges[record.range as usize].file.clone(),
                line: record.line,
                text: String::from_utf8_lossy(&record.text).into_owned(),
            }],
        };
        rejected.into_iter().map(letter).collect()
    }
}
