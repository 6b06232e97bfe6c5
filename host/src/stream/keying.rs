//! [`Keying`]: what rules look for in the events of streams, and [`Keyings`]: each once, however many rules look for the same.

use super::block::Block;
use crate::event::{Record, RecordBatch};
use crate::extract::{Extracted, Extractor, TimeFormat};
use anyhow::Result;
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The key, the event time and the members that rules look for.
pub(super) struct Keying {
    /// No other keying has this number.
    pub number: u64,
    pub extractor: Arc<Extractor>,
}

/// The keyings that somebody reads with.
#[derive(Default)]
pub(super) struct Keyings(Mutex<Numbered>);

/// JSON Pointers to the parts of the key; one to the event time, and the name of its form; the members that the rule reads, when it does
/// not read events whole.
type Fields = (Vec<String>, Option<(String, &'static str)>, Option<Vec<String>>);

#[derive(Default)]
struct Numbered {
    next: u64,
    by_fields: HashMap<Fields, Weak<Keying>>,
}

impl Keyings {
    /// The keying with these fields, which is the same for all that ask for them.
    pub fn of(
        &self,
        key: &[String],
        event_time: Option<&(String, TimeFormat)>,
        members: Option<&[String]>,
    ) -> Result<Arc<Keying>> {
        let time = event_time.map(|(pointer, format)| (pointer.clone(), format.name()));
        let fields = (key.to_vec(), time, members.map(<[String]>::to_vec));
        let mut numbered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keying) = numbered.by_fields.get(&fields).and_then(Weak::upgrade) {
            return Ok(keying);
        }
        let extractor = Extractor::new(key.to_vec(), event_time.cloned())?;
        let extractor = members.map(|members| extractor.keeping(members)).unwrap_or(extractor);
        let keying = Arc::new(Keying { number: numbered.next, extractor: Arc::new(extractor) });
        numbered.next += 1;
        numbered.by_fields.retain(|_, keying| keying.strong_count() > 0);
        numbered.by_fields.insert(fields, Arc::downgrade(&keying));
        Ok(keying)
    }
}

impl Keying {
    /// The events of a block. Its records are numbered from 0, and so are the lines of those that are no events.
    pub fn events_of(&self, block: &Block) -> Extracted {
        let record = |index: usize| {
            let (start, end) = (block.start_of(index) as u32, block.ends[index] - 1);
            Record { start, end, range: 0, line: index as u64 }
        };
        let count = block.ends.len();
        let records = RecordBatch {
            text: block.text.clone(),
            records: (0..count).map(record).collect(),
            ..RecordBatch::default()
        };
        let mut events = Extracted::default();
        self.extractor.extract(&records, 0..count, &mut events);
        events.keys.shrink_to_fit();
        events.payloads.shrink_to_fit();
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(pointers: &[&str]) -> Vec<String> {
        pointers.iter().map(|&pointer| pointer.to_owned()).collect()
    }

    #[test]
    fn equal_fields_are_one_keying_as_long_as_somebody_has_it() {
        let keyings = Keyings::default();
        let [ms, s] = [TimeFormat::EpochMs, TimeFormat::EpochS].map(|format| ("/ts".to_owned(), format));
        let of = |key: &[&str], time| keyings.of(&pointers(key), time, None).expect("they are pointers");
        let plain = of(&["/k"], None);
        assert!(Arc::ptr_eq(&plain, &of(&["/k"], None)));
        let cut = keyings.of(&pointers(&["/k"]), None, Some(&pointers(&["n"]))).expect("they are pointers");
        assert_ne!(cut.number, plain.number);
        let others = [of(&["/k", "/l"], None), of(&["/l", "/k"], None), of(&["/k"], Some(&ms)), of(&["/k"], Some(&s))];
        let mut numbers: Vec<u64> = others.iter().map(|keying| keying.number).collect();
        numbers.push(plain.number);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 5);
        let before = plain.number;
        drop((plain, others, cut));
        assert_ne!(
            of(&["/k"], None).number,
            before,
            "what was kept by the number of another one must not be taken for it"
        );
        assert_eq!(keyings.0.lock().unwrap().by_fields.len(), 1);
        assert!(keyings.of(&pointers(&["k"]), None, None).is_err());
    }

    #[test]
    fn events_of_a_block_are_numbered_within_it() {
        let keying = Keyings::default().of(&pointers(&["/k"]), None, None).expect("it is a pointer");
        let mut block = Block::default();
        [r#"{"k":"a"}"#, "{}", r#"{"k":"bc"}"#].iter().for_each(|json| block.push(json.as_bytes()));
        let events = keying.events_of(&block);
        let found: Vec<_> = events.events.iter().map(|event| (event.record, events.key_of(event))).collect();
        assert_eq!(found, [(0, &b"a"[..]), (2, b"bc")]);
        let rejected: Vec<_> = events.rejected.iter().map(|rejected| (rejected.line, rejected.reason)).collect();
        assert_eq!(rejected, [(1, "missing-key")]);
    }
}
