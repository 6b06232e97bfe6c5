//! [`KeyedRun`]: records whose events were found before, for another reader of the same fields.

use super::{Extracted, Extractor};
use crate::event::{RecordBatch, Rejected};
use std::ops::Range;
use std::sync::Arc;

/// Records of a batch whose events were found before: one after another as they stand in a block of a stream.
#[derive(Debug, Clone)]
pub struct KeyedRun {
    /// Which of [`RecordBatch::records`] they are.
    pub records: Range<usize>,
    /// Which record of the block the first of them is.
    pub first: u32,
    /// The events of the block. Its records are numbered from 0, and so are the lines of those that were rejected.
    pub of_block: Arc<Extracted>,
    /// What was looked for. For whoever looks for something else the run says nothing.
    pub by: Arc<Extractor>,
}

impl Extracted {
    /// Adds the events of a run of a batch's records.
    pub(crate) fn add(&mut self, run: &KeyedRun, batch: &RecordBatch) {
        let block = &*run.of_block;
        let wanted = run.first..run.first + run.records.len() as u32;
        let place = |record: u32| block.events.partition_point(|event| event.record < record);
        let events = &block.events[place(wanted.start)..place(wanted.end)];
        // The keys and the payloads of events that follow one another do so, too.
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            let (from, start) = (first.key_start, self.keys.len());
            self.keys.extend_from_slice(&block.keys[from as usize..(last.key_start + last.key_len) as usize]);
            let (payloads_from, payloads_start) = (first.payload_start, self.payloads.len());
            let payloads_end = last.payload_start + last.payload_len;
            self.payloads.extend_from_slice(&block.payloads[payloads_from as usize..payloads_end as usize]);
            let end = self.keys.len().max(self.payloads.len());
            assert!(end <= u32::MAX as usize, "a batch has {end} bytes of keys or payloads, more than 4 GiB");
            let record = run.records.start as u32;
            self.events.extend(events.iter().map(|event| super::Event {
                key_start: event.key_start - from + start as u32,
                record: event.record - wanted.start + record,
                payload_start: event.payload_start - payloads_from + payloads_start as u32,
                ..*event
            }));
        }
        for rejected in block.rejected.iter().filter(|rejected| wanted.contains(&(rejected.line as u32))) {
            let record = &batch.records[run.records.start + (rejected.line as u32 - wanted.start) as usize];
            self.rejected.push(Rejected { range: record.range, line: record.line, ..rejected.clone() });
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let of_rejected = |rejected: &Rejected| size_of::<Rejected>() + rejected.message.len() + rejected.text.len();
        self.keys.capacity()
            + self.payloads.capacity()
            + self.events.capacity() * size_of::<super::Event>()
            + self.rejected.iter().map(of_rejected).sum::<usize>()
    }
}
