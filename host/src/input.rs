//! [`BatchInput`]: what a batch read, as events by partition.

use crate::event::{
    BatchId, InputId, KeyGroup, Millis, PartitionId, REJECTED_BYTES_MAX, Record, RecordBatch, Rejected,
};
use crate::extract::{Event, Extracted, Extractor, KeyedRun};
use crate::imports::{ImportLine, ImportRow, LettersToPurge, RedrivenEvent, is_as_is};
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
    /// The events that run again after they were in dead letters, each with its record.
    re_driven: Vec<(u32, RedrivenEvent)>,
    /// Those of them that are no events this time either.
    rejected_again: Vec<DeadLetter>,
    /// The dead letters that are deleted.
    purges: Vec<LettersToPurge>,
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
        let read = input.records.records.len();
        let imported =
            input.records.records.iter().take_while(|record| input.input_of(record) == InputId::IMPORTS).count();
        // Imports come first, and with them events that run again, which are older than all others.
        input.read_imported(imported, partitions);
        input.extract_re_driven(&extractors);
        let mut first = imported;
        // The records of an input stand together.
        let input_of = |record: &Record| input.records.ranges[record.range as usize].input;
        for of_input in input.records.records[imported..read].chunk_by(|a, b| input_of(a) == input_of(b)) {
            let numbers = first..first + of_input.len();
            first = numbers.end;
            let InputId(number) = input_of(&of_input[0]);
            extract(extractors[number as usize], &input.records, numbers, &mut input.extracted);
        }
        for (number, event) in input.extracted.events.iter().enumerate() {
            let partition = KeyGroup::of_hash(event.key_hash).partition(partitions);
            input.by_partition[partition.0 as usize].push(number as u32);
        }
        input
    }

    fn input_of(&self, record: &Record) -> InputId {
        self.records.ranges[record.range as usize].input
    }

    /// Reads so many lines of imports. Of states with the same key, which come from two imports, the last counts.
    fn read_imported(&mut self, lines: usize, partitions: u32) {
        let mut rows: BTreeMap<Vec<u8>, Imported> = BTreeMap::new();
        for number in 0..lines {
            let record = self.records.records[number];
            let text = self.records.text_of(&record);
            match ImportLine::parse(&String::from_utf8_lossy(text)) {
                Ok(ImportLine::Edit(_)) => {}
                Ok(ImportLine::Purge(which)) => self.purges.push(which),
                Ok(ImportLine::State(row)) => {
                    let as_is = is_as_is(&self.records.ranges[record.range as usize].file);
                    rows.insert(row.key.clone(), Imported { row, as_is, record: number as u32 });
                }
                Ok(ImportLine::Event(event)) => {
                    let start = self.records.text.len();
                    self.records.text.extend_from_slice(event.text.as_bytes());
                    let end = self.records.text.len();
                    assert!(end <= u32::MAX as usize, "a batch has {end} bytes of text, more than 4 GiB");
                    let of_event = Record { start: start as u32, end: end as u32, ..record };
                    self.re_driven.push((self.records.records.len() as u32, event));
                    self.records.records.push(of_event);
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

    /// Finds the keys of the events that run again, each by the extractor of the input that it came from.
    fn extract_re_driven(&mut self, extractors: &[&Extractor]) {
        for (record, event) in &self.re_driven {
            let numbers = *record as usize..*record as usize + 1;
            let refuse = |reason: &str, message: String| DeadLetter {
                reason: reason.to_owned(),
                message,
                key: None,
                digest: None,
                fuel: None,
                timed_out: false,
                events: vec![dead_again(event)],
            };
            let Some(extractor) = extractors.get(event.input.0 as usize) else {
                let message = format!("the rule has no input number {}", event.input.0);
                self.rejected_again.push(refuse("invalid-import", message));
                continue;
            };
            let before = self.extracted.rejected.len();
            extractor.extract(&self.records, numbers, &mut self.extracted);
            let rejected = self.extracted.rejected.drain(before..);
            self.rejected_again.extend(rejected.map(|rejected| refuse(rejected.reason, rejected.message)));
        }
    }

    /// Whether an event runs again after it was in a dead letter. It was in time when it came, so it is never late.
    pub fn is_re_driven(&self, event: &Event) -> bool {
        self.re_driven_event(event.record).is_some()
    }

    /// The dead letters of a partition whose events run again: the batch and the number of each.
    pub fn letters_of(&self, partition: PartitionId) -> Vec<(BatchId, u64)> {
        let letters = self.re_driven.iter().map(|(_, event)| event.letter);
        let mut letters: Vec<_> = letters.filter(|letter| letter.partition == partition).collect();
        letters.dedup();
        letters.into_iter().map(|letter| (letter.batch, letter.number)).collect()
    }

    /// The dead letters of earlier batches that are deleted.
    pub fn purges(&self) -> &[LettersToPurge] {
        &self.purges
    }

    fn re_driven_event(&self, record: u32) -> Option<&RedrivenEvent> {
        // They stand at the end, one after another.
        let (first, _) = self.re_driven.first()?;
        let (_, event) = self.re_driven.get(record.checked_sub(*first)? as usize)?;
        Some(event)
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

    /// What the rule reads of an event.
    pub fn payload(&self, event: &Event) -> &[u8] {
        let whole = || self.records.text_of(&self.records.records[event.record as usize]);
        self.extracted.payload_of(event).unwrap_or_else(whole)
    }

    /// The greatest event time of each of so many inputs.
    pub fn event_times_max(&self, inputs: usize) -> Vec<Option<Millis>> {
        let mut max = vec![None; inputs];
        for event in &self.extracted.events {
            // An event that runs again moved the watermark when it came.
            let InputId(input) = match self.input_of(&self.records.records[event.record as usize]) {
                InputId::IMPORTS => continue,
                input => input,
            };
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
        if let Some(event) = self.re_driven_event(number) {
            return dead_again(event);
        }
        let record = &self.records.records[number as usize];
        DeadEvent {
            input: Some(self.input_of(record)).filter(|&input| input != InputId::IMPORTS),
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
                input: Some(self.records.ranges[record.range as usize].input)
                    .filter(|&input| input != InputId::IMPORTS),
                file: self.records.ranges[record.range as usize].file.clone(),
                line: record.line,
                text: String::from_utf8_lossy(&record.text).into_owned(),
            }],
        };
        self.rejected_again.iter().cloned().chain(rejected.into_iter().map(letter)).collect()
    }
}

/// Finds the events of some of a batch's records, and takes over those that are known.
fn extract(extractor: &Extractor, batch: &RecordBatch, records: Range<usize>, out: &mut Extracted) {
    let mut at = records.start;
    let is_here = |run: &&KeyedRun| records.contains(&run.records.start) && extractor.agrees_with(&run.by);
    for run in batch.keyed.iter().filter(is_here) {
        extractor.extract(batch, at..run.records.start, out);
        out.add(run, batch);
        at = run.records.end;
    }
    extractor.extract(batch, at..records.end, out);
}

/// An event that ran again and failed again, as it goes into another dead letter: with the place that it first came from.
fn dead_again(event: &RedrivenEvent) -> DeadEvent {
    DeadEvent { input: Some(event.input), file: event.file.clone(), line: event.line, text: event.text.clone() }
}
