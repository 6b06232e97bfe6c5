//! [`Notes`]: what is remembered of the events of a block, so that what comes again is known: ids, `Idempotency-Key`s, producers.

use super::bytes::{Bytes, put_number, put_text};
use sha2::{Digest, Sha256};

/// The first half of a SHA-256: whoever sends events must not find a second id that is taken for another's.
pub(super) type Hash = [u8; 16];

/// What is remembered of a block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Notes {
    /// The ids of its events, as far as they have one.
    pub ids: Vec<Hash>,
    /// The requests with an `Idempotency-Key` that have events in it.
    pub requests: Vec<RequestNote>,
    /// The producers of events in it.
    pub producers: Vec<ProducerNote>,
}

/// A request's part of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestNote {
    /// Its `Idempotency-Key`.
    pub key: Hash,
    /// All of its events.
    pub body: Hash,
    /// The first of its events in the block, counted in the block.
    pub first: u32,
    /// How many there are.
    pub accepted: u32,
    /// Which of its events for this partition were duplicates, up to here, counted from its first one for this partition.
    pub duplicates: Vec<u32>,
}

/// A producer's batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProducerNote {
    pub producer: String,
    pub batch: u64,
}

impl Notes {
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.requests.is_empty() && self.producers.is_empty()
    }

    pub fn write(&self, into: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        put_number(into, self.ids.len() as u64);
        self.ids.iter().for_each(|id| into.extend_from_slice(id));
        put_number(into, self.requests.len() as u64);
        for request in &self.requests {
            into.extend_from_slice(&request.key);
            into.extend_from_slice(&request.body);
            put_number(into, request.first.into());
            put_number(into, request.accepted.into());
            put_number(into, request.duplicates.len() as u64);
            request.duplicates.iter().for_each(|index| put_number(into, (*index).into()));
        }
        put_producers(into, &self.producers);
    }

    /// Nothing when the bytes are no notes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Notes::default());
        }
        let mut bytes = Bytes(bytes);
        let ids = bytes.many(Bytes::array)?;
        let requests = bytes.many(|bytes| {
            Some(RequestNote {
                key: bytes.array()?,
                body: bytes.array()?,
                first: bytes.small_number()?,
                accepted: bytes.small_number()?,
                duplicates: bytes.many(Bytes::small_number)?,
            })
        })?;
        let producers = read_producers(&mut bytes)?;
        bytes.0.is_empty().then_some(Notes { ids, requests, producers })
    }
}

pub(super) fn put_producers(into: &mut Vec<u8>, producers: &[ProducerNote]) {
    put_number(into, producers.len() as u64);
    for note in producers {
        put_text(into, &note.producer);
        put_number(into, note.batch);
    }
}

pub(super) fn read_producers(bytes: &mut Bytes<'_>) -> Option<Vec<ProducerNote>> {
    bytes.many(|bytes| Some(ProducerNote { producer: bytes.text()?, batch: bytes.number()? }))
}

pub(super) fn hash(text: &[u8]) -> Hash {
    half(Sha256::digest(text).into())
}

/// The hash of several events one after another; no two lists of events have the same.
pub(super) fn hash_all<'e>(events: impl Iterator<Item = (&'e [u8], Option<&'e str>)>) -> Hash {
    let mut hasher = Sha256::new();
    for (json, id) in events {
        hasher.update((json.len() as u64).to_le_bytes());
        hasher.update(json);
        hasher.update(id.map_or(0, |id| id.len() as u64 + 1).to_le_bytes());
        hasher.update(id.unwrap_or_default());
    }
    half(hasher.finalize().into())
}

fn half(whole: [u8; 32]) -> Hash {
    let mut half = Hash::default();
    half.copy_from_slice(&whole[..16]);
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_they_went_in_and_a_part_of_them_is_nothing() {
        let notes = Notes {
            ids: vec![[1; 16], [2; 16]],
            requests: vec![RequestNote {
                key: [3; 16],
                body: [4; 16],
                first: 5,
                accepted: 600,
                duplicates: vec![0, 7],
            }],
            producers: vec![ProducerNote { producer: "rule".to_owned(), batch: u64::MAX }],
        };
        let mut bytes = Vec::new();
        notes.write(&mut bytes);
        assert_eq!(Notes::read(&bytes), Some(notes));
        (1..bytes.len()).for_each(|end| assert_eq!(Notes::read(&bytes[..end]), None, "{end} bytes"));
        let mut none = Vec::new();
        Notes::default().write(&mut none);
        assert!(none.is_empty(), "most blocks have no notes, and they take no room");
        assert_eq!(Notes::read(&none), Some(Notes::default()));
    }

    #[test]
    fn other_events_have_another_hash_however_they_are_cut() {
        let of = |events: &[(&'static str, Option<&'static str>)]| {
            hash_all(events.iter().map(|(json, id)| (json.as_bytes(), *id)))
        };
        let lists: [&[_]; 6] = [
            &[("12", None), ("3", None)],
            &[("1", None), ("23", None)],
            &[("123", None)],
            &[("12", Some("3"))],
            &[("12", Some("")), ("3", None)],
            &[],
        ];
        for (index, list) in lists.iter().enumerate() {
            assert!(lists[..index].iter().all(|other| of(other) != of(list)), "{list:?}");
        }
    }
}
