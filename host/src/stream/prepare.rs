//! [`Prepared`]: a request that is checked and spread over the partitions, by the thread that has it: others are not kept waiting.

use super::append::{AppendError, InvalidEvent};
use super::new_event::too_long;
use super::notes::{Hash, hash, hash_all};
use super::{NewEvent, StreamSettings};
use crate::event::{KeyGroup, Record, RecordBatch};
use crate::extract::{Extracted, Extractor};
use anyhow::Result;

/// How long an `Idempotency-Key` may be: as long as those of others.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// So many events are told to be invalid.
const INVALID_MAX: usize = 20;

/// A request that can be appended.
pub(super) struct Prepared {
    pub events: Vec<PreparedEvent>,
    /// The `Idempotency-Key` and all events, as hashes.
    pub request: Option<(Hash, Hash)>,
    pub producer: Option<(String, u64)>,
    /// Whether somebody is to be told where the events are before others can read them.
    pub tells_places: bool,
}

/// An event that can be appended.
pub(super) struct PreparedEvent {
    pub json: Vec<u8>,
    pub partition: u32,
    pub id: Option<Hash>,
}

/// How requests to a stream are prepared.
#[derive(Debug)]
pub(super) struct Preparing {
    partitions: u32,
    key: Option<Extractor>,
    id: Option<Extractor>,
    event_bytes_max: usize,
}

impl Preparing {
    pub fn new(settings: &StreamSettings) -> Result<Self> {
        let extractor = |pointer: &Option<String>| {
            pointer.as_ref().map(|pointer| Extractor::new(vec![pointer.clone()], None)).transpose()
        };
        Ok(Preparing {
            partitions: settings.partitions,
            key: extractor(&settings.key)?.filter(|_| settings.partitions > 1),
            id: extractor(&settings.dedup.id)?,
            event_bytes_max: settings.event_bytes_max,
        })
    }

    pub fn prepare(
        &self,
        events: Vec<NewEvent>,
        idempotency_key: Option<&str>,
        producer: Option<(String, u64)>,
        tells_places: bool,
    ) -> Result<Prepared, AppendError> {
        let key = idempotency_key.map(hash_of_key).transpose()?;
        let request = key.map(|key| (key, hash_all(events.iter().map(|event| (event.json(), event.id())))));
        let mut invalid = Vec::new();
        // A rule's outputs have limits of their own, and what was put out once must not be too long when it comes again.
        let bytes_max = if producer.is_none() { self.event_bytes_max } else { usize::MAX };
        for (index, event) in events.iter().enumerate().filter(|(_, event)| event.json().len() > bytes_max) {
            let refusal = too_long(event.json().len(), bytes_max);
            invalid.push(InvalidEvent { index, code: refusal.code, message: refusal.message });
        }
        let partitions = self.partitions(&events, &mut invalid);
        let ids = self.ids(&events, &mut invalid);
        if !invalid.is_empty() {
            invalid.sort_by_key(|event| event.index);
            invalid.truncate(INVALID_MAX);
            return Err(AppendError::Invalid(invalid));
        }
        let events = events.into_iter().enumerate().map(|(index, event)| PreparedEvent {
            partition: partitions.get(index).copied().unwrap_or(0),
            id: ids.get(index).copied().flatten().or_else(|| event.id().map(|id| hash(id.as_bytes()))),
            json: event.into_json(),
        });
        Ok(Prepared { events: events.collect(), request, producer, tells_places })
    }

    /// The partition of each event; empty when there is one only.
    fn partitions(&self, events: &[NewEvent], invalid: &mut Vec<InvalidEvent>) -> Vec<u32> {
        let Some(extractor) = &self.key else { return Vec::new() };
        let mut partitions = vec![0; events.len()];
        for (index, event) in events.iter().enumerate() {
            match extracted(extractor, event) {
                Ok((hash, _)) => partitions[index] = KeyGroup::of_hash(hash).partition(self.partitions).0,
                Err((code, message)) => invalid.push(InvalidEvent { index, code, message }),
            }
        }
        partitions
    }

    /// The id of each event, as far as it has one where ids are looked for; empty when they are not.
    fn ids(&self, events: &[NewEvent], invalid: &mut Vec<InvalidEvent>) -> Vec<Option<Hash>> {
        let Some(extractor) = &self.id else { return Vec::new() };
        let mut ids = vec![None; events.len()];
        for (index, event) in events.iter().enumerate() {
            match extracted(extractor, event) {
                Ok((_, key)) => ids[index] = Some(hash(&key)),
                Err(("missing-key" | "null-key", _)) => {}
                Err((_, message)) => {
                    let message = message.replacen("the key", "the id", 1);
                    invalid.push(InvalidEvent { index, code: "invalid-id", message });
                }
            }
        }
        ids
    }
}

impl Prepared {
    pub fn bytes(&self) -> usize {
        self.events.iter().map(|event| event.json.len() + 1).sum()
    }
}

/// What an extractor finds in an event, and its hash; or why it finds nothing.
fn extracted(extractor: &Extractor, event: &NewEvent) -> Result<(u64, Vec<u8>), (&'static str, String)> {
    let text = event.json().to_vec();
    let record = Record { start: 0, end: text.len() as u32, range: 0, line: 1 };
    let batch = RecordBatch { text, records: vec![record], ..RecordBatch::default() };
    let mut out = Extracted::default();
    extractor.extract(&batch, 0..1, &mut out);
    match out.rejected.pop() {
        Some(rejected) => Err((rejected.reason, rejected.message)),
        None => Ok((out.events[0].key_hash, out.keys)),
    }
}

fn hash_of_key(key: &str) -> Result<Hash, AppendError> {
    let (bytes, max) = (key.len(), IDEMPOTENCY_KEY_BYTES_MAX);
    match bytes {
        0 => Err(AppendError::InvalidKey("the Idempotency-Key is empty".to_owned())),
        _ if bytes > max => {
            Err(AppendError::InvalidKey(format!("the Idempotency-Key has {bytes} bytes, the limit is {max}")))
        }
        _ => Ok(hash(key.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dedup;
    use super::*;

    fn events(texts: &[&str]) -> Vec<NewEvent> {
        texts.iter().map(|text| NewEvent::new(*text).unwrap()).collect()
    }

    fn preparing(settings: StreamSettings) -> Preparing {
        Preparing::new(&settings).unwrap()
    }

    fn invalid(prepared: Result<Prepared, AppendError>) -> Vec<(usize, &'static str)> {
        match prepared.err() {
            Some(AppendError::Invalid(events)) => events.iter().map(|event| (event.index, event.code)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_keys_go_to_the_same_partition_and_events_without_a_key_are_refused() {
        let key = Some("/k".to_owned());
        let preparing = preparing(StreamSettings { partitions: 7, key, ..StreamSettings::default() });
        let texts: Vec<String> = (0..40).map(|number| format!("{{\"k\":{}}}", number % 20)).collect();
        let all = events(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let prepared = preparing.prepare(all, None, None, false).unwrap();
        let partitions: Vec<u32> = prepared.events.iter().map(|event| event.partition).collect();
        assert_eq!(partitions[..20], partitions[20..]);
        assert!(partitions.iter().collect::<std::collections::BTreeSet<_>>().len() > 3, "{partitions:?}");
        let found = invalid(preparing.prepare(events(&["{\"k\":1}", "{}", "{\"k\":null}"]), None, None, false));
        assert_eq!(found, [(1, "missing-key"), (2, "null-key")]);
    }

    #[test]
    fn an_id_is_looked_for_in_the_event_first() {
        let dedup = Dedup { id: Some("/id".to_owned()), ..Dedup::default() };
        let preparing = preparing(StreamSettings { dedup, ..StreamSettings::default() });
        let mut all = events(&["{\"id\":\"a\"}", "{\"id\":7}", "{}", "{}"]);
        all[0] = all[0].clone().with_id("b");
        all[3] = all[3].clone().with_id("b");
        let prepared = preparing.prepare(all, None, None, false).unwrap();
        let ids: Vec<_> = prepared.events.iter().map(|event| event.id).collect();
        assert_eq!(ids, [Some(hash(b"a")), Some(hash(b"7")), None, Some(hash(b"b"))]);
        assert_eq!(invalid(preparing.prepare(events(&["{\"id\":[]}"]), None, None, false)), [(0, "invalid-id")]);
    }

    #[test]
    fn what_is_too_long_is_refused_but_for_the_outputs_of_a_rule() {
        let preparing = preparing(StreamSettings { event_bytes_max: 8, ..StreamSettings::default() });
        let all = || events(&["{\"a\":12}", "{\"a\":123}"]);
        assert_eq!(invalid(preparing.prepare(all(), None, None, false)), [(1, "event-too-long")]);
        preparing.prepare(all(), None, Some(("rule".to_owned(), 1)), false).unwrap();
        for (key, is_possible) in [("", false), (&"k".repeat(255), true), (&"k".repeat(256), false)] {
            let prepared = preparing.prepare(Vec::new(), Some(key), None, false);
            assert_eq!(prepared.is_ok(), is_possible, "{}", key.len());
        }
    }
}
