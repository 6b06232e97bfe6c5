//! From records to events: the key and the event time of each, found in one pass over its JSON.

mod decimal;
mod fields;
mod key;
mod keyed;
mod time;

use crate::event::{REJECTED_BYTES_MAX, Record, RecordBatch, Rejected};
use anyhow::{Result, ensure};
use fields::Fields;
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

pub use keyed::KeyedRun;
pub use time::TimeFormat;

/// How many parts a composite key may have: far more than is useful, and a bound on how much longer than its record a
/// key can be.
pub const KEY_PARTS_MAX: usize = 16;

/// How long a key may be. Keys are kept in memory and in every index of the state, so they are to be names, not texts.
pub const KEY_BYTES_MAX: usize = 1024;

/// Finds the key and the event time of records.
///
/// Of members that occur twice the last counts, as in most JSON readers. The whole record is checked to be JSON.
#[derive(Debug)]
pub struct Extractor {
    fields: Fields,
    keys: Vec<String>,
    time: Option<(String, TimeFormat)>,
}

/// A record with its key and event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The `xxh3_64` of the key: what [`crate::event::KeyGroup::of_hash`] and hash tables take.
    pub key_hash: u64,
    /// The event time in milliseconds since 1970-01-01T00:00:00Z; 0 when the input has no event time.
    pub time_ms: i64,
    /// Where the key begins in [`Extracted::keys`].
    pub key_start: u32,
    /// How long it is.
    pub key_len: u32,
    /// Which of [`RecordBatch::records`] it is; that has the payload, range and line.
    pub record: u32,
}

/// The events of a batch, in source order.
#[derive(Debug, Clone, Default)]
pub struct Extracted {
    /// The keys of all events one after another.
    pub keys: Vec<u8>,
    /// The events in source order.
    pub events: Vec<Event>,
    /// The records that are none, in source order. What the source rejected is not among them.
    pub rejected: Vec<Rejected>,
}

impl Extracted {
    /// The key of an event: UTF-8.
    pub fn key_of(&self, event: &Event) -> &[u8] {
        &self.keys[event.key_start as usize..][..event.key_len as usize]
    }
}

/// Why a record is no event: a stable word, and a sentence.
#[derive(Debug)]
struct Refusal {
    reason: &'static str,
    message: String,
}

impl Refusal {
    fn new(reason: &'static str, message: impl fmt::Display) -> Self {
        Refusal { reason, message: message.to_string() }
    }
}

impl Extractor {
    /// `keys`: JSON Pointers (RFC 6901) to the parts of the key, such as `/user/id`. `event_time`: where it stands, and how
    /// it is written.
    pub fn new(keys: Vec<String>, event_time: Option<(String, TimeFormat)>) -> Result<Self> {
        let count = keys.len();
        ensure!((1..=KEY_PARTS_MAX).contains(&count), "the key has {count} parts; 1 to {KEY_PARTS_MAX} are possible");
        for (index, pointer) in keys.iter().enumerate() {
            ensure!(!keys[..index].contains(pointer), "the key names {pointer} twice; remove one");
        }
        let fields = Fields::new(keys.iter().chain(event_time.iter().map(|(pointer, _)| pointer)))?;
        Ok(Extractor { fields, keys, time: event_time })
    }

    /// Whether it finds the same as another one in any record.
    pub fn agrees_with(&self, other: &Extractor) -> bool {
        self.keys == other.keys && self.time == other.time
    }

    /// Adds the events found in some of a batch's records.
    pub fn extract(&self, batch: &RecordBatch, records: Range<usize>, out: &mut Extracted) {
        out.events.reserve(records.len());
        let mut found = vec![None; self.fields.count()];
        for index in records {
            let record = &batch.records[index];
            let text = batch.text_of(record);
            let key_start = out.keys.len();
            match self.event(text, &mut found, &mut out.keys) {
                Ok(time_ms) => {
                    let end = out.keys.len();
                    assert!(end <= u32::MAX as usize, "a batch has {end} bytes of keys, more than 4 GiB");
                    out.events.push(Event {
                        key_hash: xxhash_rust::xxh3::xxh3_64(&out.keys[key_start..]),
                        time_ms,
                        key_start: key_start as u32,
                        key_len: (end - key_start) as u32,
                        record: index as u32,
                    });
                }
                Err(refusal) => {
                    out.keys.truncate(key_start);
                    out.rejected.push(rejected(record, *refusal, text));
                }
            }
        }
    }

    /// Appends the key to `keys` and gives the event time.
    fn event<'t>(
        &self,
        text: &'t [u8],
        found: &mut [Option<&'t RawValue>],
        keys: &mut Vec<u8>,
    ) -> Result<i64, Box<Refusal>> {
        self.fields.find(text, found)?;
        key::append(&self.keys, found, keys)?;
        match &self.time {
            None => Ok(0),
            Some((pointer, format)) => format.read(found[self.keys.len()].map(RawValue::get), pointer),
        }
    }
}

/// The key that a row of imported state names, as events with that key have it.
pub fn imported_key(value: &RawValue) -> Result<Vec<u8>, String> {
    key::imported(value)
}

fn rejected(record: &Record, refusal: Refusal, text: &[u8]) -> Rejected {
    Rejected {
        range: record.range,
        line: record.line,
        reason: refusal.reason,
        message: refusal.message,
        text: text[..text.len().min(REJECTED_BYTES_MAX)].to_vec(),
    }
}

#[cfg(test)]
mod tests;
