//! [`Model`]: what the guest `event-time-timeout` gives, worked out in memory: batches, watermark, groups, timeouts, imports.

use serde_json::json;
use std::collections::{BTreeMap, VecDeque};

/// How far the watermark stays behind.
pub const DELAY_MS: i64 = 2_000;
/// Records of a batch.
pub const BATCH_RECORDS: usize = 5;
/// How long after its newest event a key is called again.
const TIMEOUT_MS: i64 = 10_000;

/// A rule and its input.
#[derive(Default)]
pub struct Model {
    /// Lines that no batch has read.
    pub lines: VecDeque<Line>,
    /// Imported rows that no batch has read; none for the line of an import that says who made it.
    pub imports: VecDeque<Option<(String, Row)>>,
    pub rows: BTreeMap<String, Row>,
    /// The outputs of each batch that has any, sorted.
    pub outputs: BTreeMap<u64, Vec<String>>,
    /// Which keys failed in which batch; none for lines that are no events.
    pub letters: Vec<(u64, Option<String>)>,
    last: Option<Last>,
    /// The watermark that was reached when the input was used up after the last batch.
    settled: Option<i64>,
}

/// A line of the input.
pub enum Line {
    Event { key: String, at: i64 },
    Garbage,
}

/// What a key has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub count: u64,
    pub timeout: Option<i64>,
}

/// The batch before.
#[derive(Clone, Copy)]
struct Last {
    batch: u64,
    watermark: i64,
    newest: Option<i64>,
}

/// What a batch reads.
#[derive(Default)]
struct Read {
    lines: Vec<Line>,
    imports: BTreeMap<String, Row>,
    is_empty: bool,
}

impl Model {
    /// Runs until nothing is left to do, or until so many batches were ever planned.
    pub fn run(&mut self, planned: Option<u64>) {
        while planned.is_none_or(|planned| self.next_batch() < planned) {
            let read = self.read();
            if read.is_empty {
                self.settle();
                let watermark = self.next_watermark();
                if !self.rows.values().any(|row| row.timeout.is_some_and(|at| at < watermark)) {
                    break;
                }
            }
            self.batch(read);
        }
    }

    /// The number of the next batch.
    pub fn next_batch(&self) -> u64 {
        self.last.map_or(0, |last| last.batch + 1)
    }

    /// After a crash: whether it was written down that the input was used up, and how far the watermark had come.
    pub fn know_settled(&mut self, written: Option<(u64, i64)>) {
        self.settled =
            written.filter(|(batch, _)| self.last.is_some_and(|last| last.batch == *batch)).map(|(_, at)| at);
    }

    fn read(&mut self) -> Read {
        let imports = self.imports.len().min(BATCH_RECORDS);
        // Events come with the last of the imported rows.
        let lines = if self.imports.len() > imports { 0 } else { self.lines.len().min(BATCH_RECORDS - imports) };
        Read {
            is_empty: imports + lines == 0,
            imports: self.imports.drain(..imports).flatten().collect(),
            lines: self.lines.drain(..lines).collect(),
        }
    }

    fn next_watermark(&self) -> i64 {
        self.last.map_or(0, |last| last.watermark.max(last.newest.map_or(0, |newest| newest - DELAY_MS)).max(0))
    }

    fn settle(&mut self) {
        if self.last.is_some() {
            self.settled = Some(self.next_watermark().max(self.settled.unwrap_or(i64::MIN)));
        }
    }

    fn batch(&mut self, read: Read) {
        let batch = self.next_batch();
        let watermark = self.next_watermark().max(self.settled.unwrap_or(i64::MIN));
        let late = self.last.map_or(0, |last| self.settled.unwrap_or(last.watermark));
        let mut newest = self.last.and_then(|last| last.newest);
        // The groups in any order: outputs are compared sorted.
        let mut groups: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for line in read.lines {
            match line {
                Line::Garbage => self.letters.push((batch, None)),
                Line::Event { key, at } => {
                    newest = newest.max(Some(at));
                    if at > late {
                        groups.entry(key).or_default().push(at);
                    }
                }
            }
        }
        let due = |row: &Row| row.timeout.is_some_and(|at| at < watermark);
        let is_called = |key: &String| groups.contains_key(key) || read.imports.contains_key(key);
        let fired: Vec<String> =
            self.rows.iter().filter(|(key, row)| due(row) && !is_called(key)).map(|(key, _)| key.clone()).collect();
        let mut outputs = Vec::new();
        // Imported rows are put as they are, unless there are events: then they are what the call finds.
        self.rows.extend(read.imports);
        for (key, times) in groups {
            let timeout = times.iter().max().expect("a group has events") + TIMEOUT_MS;
            if timeout <= 0 || timeout < watermark {
                self.letters.push((batch, Some(key)));
                continue;
            }
            let count = self.rows.get(&key).map_or(0, |row| row.count) + times.len() as u64;
            outputs.push(json!({"key": key, "count": count}).to_string());
            self.rows.insert(key, Row { count, timeout: Some(timeout) });
        }
        for key in fired {
            self.rows.remove(&key);
            outputs.push(json!({"key": key, "timed_out": true}).to_string());
        }
        if !outputs.is_empty() {
            outputs.sort();
            self.outputs.insert(batch, outputs);
        }
        self.last = Some(Last { batch, watermark, newest });
        self.settled = None;
    }
}
