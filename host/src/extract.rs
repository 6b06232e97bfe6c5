//! From records to events: the key, the event time and what the rule reads of each, found in one pass over its JSON.

mod decimal;
mod fields;
mod key;
mod keyed;
mod scan;
mod time;

use crate::event::{REJECTED_BYTES_MAX, Record, RecordBatch, Rejected};
use anyhow::{Result, ensure};
use fields::Fields;
use scan::Layout;
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
#[derive(Debug, Clone)]
pub struct Extractor {
    fields: Fields,
    keys: Vec<String>,
    time: Option<(String, TimeFormat)>,
    /// The members that rules read, in order; none when they read events whole.
    members: Option<Vec<String>>,
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
    /// Which of [`RecordBatch::records`] it is; that has the text, range and line.
    pub record: u32,
    /// Where what the rule reads of it begins in [`Extracted::payloads`].
    pub payload_start: u32,
    /// How long that is; 0 when it is the text of the record.
    pub payload_len: u32,
}

/// The events of a batch, in source order.
#[derive(Debug, Clone, Default)]
pub struct Extracted {
    /// The keys of all events one after another.
    pub keys: Vec<u8>,
    /// What rules read of events that they do not read whole, one after another.
    pub payloads: Vec<u8>,
    /// The events in source order.
    pub events: Vec<Event>,
    /// The records that are none, in source order. What the source rejected is not among them.
    pub rejected: Vec<Rejected>,
}

impl Extracted {
    /// What the rule reads of an event, when that is not the whole record.
    pub fn payload_of(&self, event: &Event) -> Option<&[u8]> {
        let payload = &self.payloads[event.payload_start as usize..][..event.payload_len as usize];
        (!payload.is_empty()).then_some(payload)
    }

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
        Ok(Extractor { fields, keys, time: event_time, members: None })
    }

    /// The same for rules that read these members of an event and no others.
    pub fn keeping(&self, members: &[String]) -> Self {
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        Extractor { fields: self.fields.keeping(members), members: Some(sorted), ..self.clone() }
    }

    /// Whether it finds the same as another one in any record.
    pub fn agrees_with(&self, other: &Extractor) -> bool {
        self.keys == other.keys && self.time == other.time && self.members == other.members
    }

    /// Adds the events found in some of a batch's records.
    pub fn extract(&self, batch: &RecordBatch, records: Range<usize>, out: &mut Extracted) {
        out.events.reserve(records.len());
        let (mut layout, mut found) = (Layout::default(), vec![None; self.fields.count()]);
        let records = records.start as u32..records.end as u32;
        let all = Text::of(batch, &batch.records[records.start as usize..records.end as usize]);
        for number in records {
            let record = &batch.records[number as usize];
            let before = (out.keys.len(), out.payloads.len());
            let text = all.of_record(batch, record);
            let event = text.and_then(|text| self.event(text, number, &mut layout, &mut found, out));
            match event {
                Ok(event) => out.events.push(event),
                Err(refusal) => {
                    out.keys.truncate(before.0);
                    out.payloads.truncate(before.1);
                    out.rejected.push(rejected(record, *refusal, batch.text_of(record)));
                }
            }
        }
    }

    /// Appends the key and the payload, and gives the rest of the event.
    fn event<'f, 't>(
        &'f self,
        text: &'t str,
        record: u32,
        layout: &mut Layout<'f>,
        found: &mut [Option<&'t str>],
        out: &mut Extracted,
    ) -> Result<Event, Box<Refusal>> {
        let (key_start, payload_start) = (out.keys.len(), out.payloads.len());
        let payloads = &mut out.payloads;
        let is_whole = !self.fields.find(text, layout, found, |member| {
            payloads.push(if payloads.len() == payload_start { b'{' } else { b',' });
            payloads.extend_from_slice(&text.as_bytes()[member]);
        })?;
        if is_whole || self.members.is_none() {
            payloads.truncate(payload_start);
        } else {
            payloads.extend_from_slice(if payloads.len() == payload_start { b"{}" } else { b"}" });
        }
        key::append(&self.keys, found, &mut out.keys)?;
        let time_ms = match &self.time {
            None => 0,
            Some((pointer, format)) => format.read(found[self.keys.len()], pointer)?,
        };
        let (key_end, payload_end) = (out.keys.len(), out.payloads.len());
        let end = key_end.max(payload_end);
        assert!(end <= u32::MAX as usize, "a batch has {end} bytes of keys or payloads, more than 4 GiB");
        Ok(Event {
            key_hash: xxhash_rust::xxh3::xxh3_64(&out.keys[key_start..]),
            time_ms,
            key_start: key_start as u32,
            key_len: (key_end - key_start) as u32,
            record,
            payload_start: payload_start as u32,
            payload_len: (payload_end - payload_start) as u32,
        })
    }
}

/// The text of some records, when all of it is UTF-8: one check over all is much cheaper than one for each.
struct Text<'b> {
    text: Option<&'b str>,
    start: usize,
}

impl<'b> Text<'b> {
    fn of(batch: &'b RecordBatch, records: &[Record]) -> Self {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Text { text: None, start: 0 } };
        let (start, end) = (first.start as usize, last.end as usize);
        Text { text: batch.text.get(start..end).and_then(|text| simdutf8::basic::from_utf8(text).ok()), start }
    }

    fn of_record(&self, batch: &'b RecordBatch, record: &Record) -> Result<&'b str, Box<Refusal>> {
        let place = |at: u32| (at as usize).checked_sub(self.start);
        let of_all = |text: &'b str| text.get(place(record.start)?..place(record.end)?);
        match self.text.and_then(of_all) {
            Some(text) => Ok(text),
            None => std::str::from_utf8(batch.text_of(record)).map_err(|error| {
                let message = format!("the record is not valid UTF-8 at offset {}", error.valid_up_to());
                Box::new(Refusal::new("invalid-utf8", message))
            }),
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
