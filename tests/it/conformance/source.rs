//! [`Events`]: the source of a case: events in memory, which outlive the host as a file would.

use anyhow::Result;
use keyfold::event::{InputId, OffsetRange, Position, Positions, Record, RecordBatch};
use keyfold::source::{ReadLimit, ReadStatus, Source, SourceStatus};
use std::collections::BTreeMap;

/// Events by input and file.
pub struct Events {
    inputs: usize,
    files: BTreeMap<(InputId, String), Vec<String>>,
    positions: Positions,
}

impl Events {
    /// No events yet, of so many inputs.
    pub fn new(inputs: usize) -> Self {
        Events { inputs, files: BTreeMap::new(), positions: Positions::new() }
    }

    /// Appends an event to a file of an input.
    pub fn add(&mut self, input: InputId, file: &str, event: String) {
        self.files.entry((input, file.to_owned())).or_default().push(event);
    }
}

impl Source for Events {
    fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.positions = positions.clone();
        Ok(())
    }

    fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        for (place, events) in &self.files {
            let from = self.positions.get(place).copied().unwrap_or_default();
            let room = limit.records_max - batch.records.len();
            let to = (events.len() as u64).min(from.line.saturating_add(room as u64));
            if to > from.line {
                let (input, file) = place.clone();
                let range = OffsetRange { input, file, from, to: Position { offset: to, line: to } };
                push(&range, events, batch);
                self.positions.insert(place.clone(), range.to);
                batch.ranges.push(range);
            }
        }
        let read = |place| self.positions.get(place).map_or(0, |position| position.line as usize);
        let has_more = self.files.iter().any(|(place, events)| read(place) < events.len());
        Ok(if has_more { ReadStatus::More } else { ReadStatus::Ended })
    }

    fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        for range in ranges {
            push(range, &self.files[&(range.input, range.file.clone())], batch);
            batch.ranges.push(range.clone());
        }
        Ok(())
    }

    fn status(&self) -> Vec<SourceStatus> {
        let status = |_| SourceStatus { description: "events of a case".to_owned(), bytes: None };
        (0..self.inputs).map(status).collect()
    }
}

/// Adds the events of a range that is about to be pushed.
fn push(range: &OffsetRange, events: &[String], batch: &mut RecordBatch) {
    let number = batch.ranges.len() as u32;
    for line in range.from.line..range.to.line {
        let start = batch.text.len() as u32;
        batch.text.extend_from_slice(events[line as usize].as_bytes());
        batch.records.push(Record { start, end: batch.text.len() as u32, range: number, line: line + 1 });
    }
}
