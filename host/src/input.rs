//! [`BatchInput`]: what a batch read, as events by partition.

use crate::event::{InputId, KeyGroup, Millis, PartitionId, REJECTED_BYTES_MAX, Record, RecordBatch, Rejected};
use crate::extract::{Event, Extracted, Extractor};
use crate::imports::{ImportRow, is_as_is};
use crate::state::{DeadEvent, DeadLetter};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a batch read, as events by partition. Shared by the partitions, which copy what they need into their calls.
#[derive(Debug, Default)]
pub struct BatchInput {
    /// The records.
    pub records: RecordBatch,
    /// The events found in them.
    pub extracted: Extracted,
    /// For each partition, the numbers of its events, in source order.
    by_partition: Vec<Vec<u32>>,
    /// Which of the records are imported states.
    imported_rows: Range<usize>,
    /// For each partition, the imported states. A key occurs once.
    imported: Vec<Vec<Imported>>,
}

/// A state that is put in from outside.
#[derive(Debug)]
pub struct Imported {
    /// The state of the key.
    pub row: ImportRow,
    /// Whether the row is put as it is, without a call of the rule.
    pub as_is: bool,
    /// Which of the batch's records it is.
    record: u32,
}

impl BatchInput {
    /// Finds key and time of each record with the extractor of its input, and the partition of each event.
    pub fn new<'e>(records: RecordBatch, extractors: impl IntoIterator<Item = &'e Extractor>, partitions: u32) -> Self {
        let extractors: Vec<&Extractor> = extractors.into_iter().collect();
        let mut input = BatchInput { records, ..BatchInput::default() };
        input.by_partition.resize(partitions as usize, Vec::new());
        input.imported.resize_with(partitions as usize, Vec::new);
        let input_of = |record: &Record| input.records.ranges[record.range as usize].input;
        let mut first = 0;
        // The records of an input stand together.
        for of_input in input.records.records.chunk_by(|a, b| input_of(a) == input_of(b)) {
            let numbers = first..first + of_input.len();
            first = numbers.end;
            match input_of(&of_input[0]) {
                InputId::IMPORTS => input.imported_rows = numbers,
                InputId(number) => extractors[number as usize].extract(&input.records, numbers, &mut input.extracted),
            }
        }
        for (number, event) in input.extracted.events.iter().enumerate() {
            let partition = KeyGroup::of_hash(event.key_hash).partition(partitions);
            input.by_partition[partition.0 as usize].push(number as u32);
        }
        input.read_imported(partitions);
        input
    }

    /// Reads the imported states. Of rows with the same key, which come from two imports, the last counts.
    fn read_imported(&mut self, partitions: u32) {
        let mut rows: BTreeMap<Vec<u8>, Imported> = BTreeMap::new();
        for number in self.imported_rows.clone() {
            let record = self.records.records[number];
            let text = self.records.text_of(&record);
            match ImportRow::parse(&String::from_utf8_lossy(text)) {
                Ok(row) => {
                    let as_is = is_as_is(&self.records.ranges[record.range as usize].file);
                    rows.insert(row.key.clone(), Imported { row, as_is, record: number as u32 });
                }
                // The import was checked, so somebody has changed the file since.
                Err(message) => self.extracted.rejected.push(Rejected {
                    range: record.range,
                    line: record.line,
                    reason: "invalid-import",
                    message,
                    text: text[..text.len().min(REJECTED_BYTES_MAX)].to_vec(),
                }),
            }
        }
        for (key, imported) in rows {
            self.imported[KeyGroup::of(&key).partition(partitions).0 as usize].push(imported);
        }
    }

    /// The states that are put into a partition, in the order of their keys.
    pub fn imported_to(&self, partition: PartitionId) -> &[Imported] {
        self.imported.get(partition.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The keys of all imported states, each with the number of its record.
    pub fn imported_keys(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.imported.iter().flatten().map(|imported| (imported.record, imported.row.key.as_slice()))
    }

    /// An imported row as it goes into a dead letter.
    pub fn dead_row(&self, imported: &Imported) -> DeadEvent {
        self.dead_record(imported.record)
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

    /// The greatest event time of each of so many inputs.
    pub fn event_times_max(&self, inputs: usize) -> Vec<Option<Millis>> {
        let mut max = vec![None; inputs];
        for event in &self.extracted.events {
            let record = &self.records.records[event.record as usize];
            let InputId(input) = self.records.ranges[record.range as usize].input;
            max[input as usize] = max[input as usize].max(Some(Millis(event.time_ms)));
        }
        max
    }

    /// Records read of one input, rejected ones included.
    pub fn rows_of(&self, input: InputId) -> u64 {
        let is_of = |range: u32| self.records.ranges[range as usize].input == input;
        let records = self.records.records.iter().filter(|record| is_of(record.range)).count();
        (records + self.records.rejected.iter().filter(|rejected| is_of(rejected.range)).count()) as u64
    }

    /// An event as it goes into a dead letter.
    pub fn dead_event(&self, event: &Event) -> DeadEvent {
        self.dead_record(event.record)
    }

    fn dead_record(&self, number: u32) -> DeadEvent {
        let record = &self.records.records[number as usize];
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
        let letter = |record: &Rejected| DeadLetter {
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
