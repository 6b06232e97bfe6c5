//! [`Scene`]: a stream in a folder of its own, opened as often as a test wants.

use crate::support::folder;
use anyhow::Result;
use keyfold::clock::Clock;
use keyfold::event::{InputId, Millis, Position, RecordBatch};
use keyfold::source::{ReadLimit, ReadStatus, Source};
use keyfold::stream::{
    AppendError, AppendRequest, Appended, EventNumber, NewEvent, StreamLimits, StreamLog, StreamSettings, StreamSource,
};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A limit that nothing comes to.
pub const ALL: ReadLimit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };

/// A stream in a folder of its own.
pub struct Scene {
    pub folder: TempDir,
    pub settings: StreamSettings,
    pub limits: StreamLimits,
    pub clock: Clock,
}

impl Scene {
    pub fn new(settings: StreamSettings) -> Self {
        let clock = Clock::manual(Millis(1_000_000));
        Scene { folder: folder::fast(), settings, limits: StreamLimits::default(), clock }
    }

    /// With so small segments and blocks that a few events fill many.
    pub fn small(settings: StreamSettings, segment_bytes: u64, block_bytes: usize) -> Self {
        let mut scene = Scene::new(settings);
        (scene.limits.segment_bytes, scene.limits.block_bytes) = (segment_bytes, block_bytes);
        scene
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("stream")
    }

    pub fn open(&self) -> Arc<StreamLog> {
        self.try_open().unwrap_or_else(|error| panic!("{error:#}"))
    }

    pub fn try_open(&self) -> Result<Arc<StreamLog>> {
        let (settings, clock, limits) = (self.settings.clone(), self.clock.clone(), self.limits.clone());
        StreamLog::open(&self.path(), settings, clock, limits).map(Arc::new)
    }

    /// The segment files of a partition, oldest first.
    pub fn segments(&self, partition: u32) -> Vec<PathBuf> {
        let folder = self.path().join(partition.to_string());
        folder::files(&folder).into_keys().map(|name| folder.join(name)).collect()
    }

    pub fn pass(&self, millis: i64) {
        self.clock.advance_to(Millis(self.clock.now().0 + millis));
    }
}

/// An event with a number and some text, so that not all are equally long.
pub fn event(number: u64) -> NewEvent {
    let text = "abcdefghij".repeat(number as usize % 7);
    NewEvent::new(format!(r#"{{"k":"key-{}","n":{number},"text":"{text}"}}"#, number % 10)).expect("it is JSON")
}

pub fn events(numbers: impl IntoIterator<Item = u64>) -> Vec<NewEvent> {
    numbers.into_iter().map(event).collect()
}

pub fn append(log: &StreamLog, events: Vec<NewEvent>) -> Appended {
    try_append(log, events).unwrap_or_else(|error| panic!("{error}"))
}

pub fn try_append(log: &StreamLog, events: Vec<NewEvent>) -> Result<Appended, AppendError> {
    log.append(AppendRequest { events, ..AppendRequest::default() })
}

/// All events of a partition as they are read back one by one.
pub fn read(log: &StreamLog, partition: u32) -> Vec<String> {
    let stored = log.read(partition, EventNumber(0), ALL).unwrap_or_else(|error| panic!("{error:#}"));
    let first = stored.first().map_or(0, |event| event.number.0);
    for (number, event) in (first..).zip(&stored) {
        assert_eq!(event.number.0, number, "events are numbered without gaps");
    }
    stored.into_iter().map(|event| String::from_utf8(event.json).expect("it is UTF-8")).collect()
}

/// The numbers in all events of a partition.
pub fn numbers(log: &StreamLog, partition: u32) -> Vec<u64> {
    let number = |json: String| {
        let value: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        value["n"].as_u64().expect("it has a number")
    };
    read(log, partition).into_iter().map(number).collect()
}

/// A reader of a stream, from its first event on.
pub fn source(log: &Arc<StreamLog>) -> StreamSource {
    let start = vec![Position::default(); log.partitions() as usize];
    let mut source = StreamSource::new(InputId(0), Arc::clone(log), start);
    source.seek(&Default::default()).unwrap_or_else(|error| panic!("{error:#}"));
    source
}

/// Reads all in batches of so many.
pub fn batches(source: &mut StreamSource, limit: ReadLimit) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    loop {
        let mut batch = RecordBatch::default();
        let status = source.read(limit, &mut batch).unwrap_or_else(|error| panic!("{error:#}"));
        if !batch.ranges.is_empty() {
            batches.push(batch);
        }
        if status != ReadStatus::More {
            return batches;
        }
    }
}

/// The records of a batch with their lines and source partitions.
pub fn records(batch: &RecordBatch) -> Vec<(String, u64, String)> {
    let text = |record| String::from_utf8(batch.text_of(record).to_vec()).expect("it is UTF-8");
    let file = |range: u32| batch.ranges[range as usize].file.clone();
    batch.records.iter().map(|record| (text(record), record.line, file(record.range))).collect()
}
