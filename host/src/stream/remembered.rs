//! [`Remembered`]: the ids and requests that came lately, so that what comes again is known.

use super::EventNumber;
use super::notes::{Hash, Notes};
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;

/// The last ids and requests of a stream; so many of each.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    max: usize,
    ids: HashSet<Hash>,
    ids_by_age: VecDeque<Hash>,
    requests: HashMap<Hash, Request>,
    requests_by_age: VecDeque<Hash>,
}

/// A request with an `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Request {
    /// All of its events.
    pub body: Hash,
    /// Where they are; one for each block that has some.
    pub parts: Vec<RequestPart>,
}

/// Events of a request that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestPart {
    pub partition: u32,
    pub first: EventNumber,
    pub accepted: u32,
    /// Which of the request's events for the partition were duplicates.
    pub duplicates: Box<[u32]>,
}

impl Remembered {
    pub fn new(max: usize) -> Self {
        Remembered { max, ..Remembered::default() }
    }

    pub fn has_id(&self, id: &Hash) -> bool {
        self.ids.contains(id)
    }

    pub fn request(&self, key: &Hash) -> Option<&Request> {
        self.requests.get(key)
    }

    /// Remembers a block's notes.
    pub fn add(&mut self, partition: u32, block_first: EventNumber, notes: &Notes) {
        for id in &notes.ids {
            if self.ids.insert(*id) {
                self.ids_by_age.push_back(*id);
            }
        }
        for note in &notes.requests {
            let request = self.requests.entry(note.key).or_insert_with(|| {
                self.requests_by_age.push_back(note.key);
                Request { body: note.body, parts: Vec::new() }
            });
            request.parts.push(RequestPart {
                partition,
                first: EventNumber(block_first.0 + u64::from(note.first)),
                accepted: note.accepted,
                duplicates: note.duplicates.as_slice().into(),
            });
        }
        self.forget();
    }

    pub fn set_max(&mut self, max: usize) {
        self.max = max;
        self.forget();
    }

    fn forget(&mut self) {
        while self.ids_by_age.len() > self.max
            && let Some(oldest) = self.ids_by_age.pop_front()
        {
            self.ids.remove(&oldest);
        }
        while self.requests_by_age.len() > self.max
            && let Some(oldest) = self.requests_by_age.pop_front()
        {
            self.requests.remove(&oldest);
        }
    }
}

impl Request {
    /// Whether its events for this partition are there.
    pub fn has(&self, partition: u32) -> bool {
        self.parts.iter().any(|part| part.partition == partition)
    }

    /// Where its events for a partition are, one after another; none for those that were duplicates.
    pub fn places(&self, partition: u32) -> impl Iterator<Item = Option<EventNumber>> {
        let parts = move || self.parts.iter().filter(move |part| part.partition == partition);
        let mut numbers =
            parts().flat_map(|part| (0..u64::from(part.accepted)).map(|more| EventNumber(part.first.0 + more)));
        let is_duplicate = move |index: u32| parts().any(|part| part.duplicates.contains(&index));
        (0..).map(move |index| if is_duplicate(index) { None } else { numbers.next() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::notes::RequestNote;
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut remembered = Remembered::new(2);
        for id in 0..4 {
            let request = RequestNote { key: [id; 16], body: [0; 16], first: 0, accepted: 1, duplicates: Vec::new() };
            let notes = Notes { ids: vec![[id; 16], [0; 16]], requests: vec![request], ..Notes::default() };
            remembered.add(0, EventNumber(0), &notes);
        }
        assert_eq!([0, 1, 2, 3].map(|id| remembered.request(&[id; 16]).is_some()), [false, false, true, true]);
        // 0 came again after it was forgotten.
        assert_eq!([0, 1, 2, 3].map(|id| remembered.has_id(&[id; 16])), [true, false, false, true]);
        remembered.set_max(0);
        assert!(!remembered.has_id(&[3; 16]) && remembered.request(&[3; 16]).is_none());
    }

    #[test]
    fn a_request_in_several_blocks_has_its_places_one_after_another() {
        let part = |partition, first, accepted, duplicates: &[u32]| RequestPart {
            partition,
            first: EventNumber(first),
            accepted,
            duplicates: duplicates.into(),
        };
        let parts = vec![part(0, 5, 2, &[1]), part(1, 40, 1, &[]), part(0, 9, 1, &[3])];
        let request = Request { body: [0; 16], parts };
        let places = |partition| request.places(partition).map(|place| place.map(|number| number.0));
        assert_eq!(places(0).take(5).collect::<Vec<_>>(), [Some(5), None, Some(6), None, Some(9)]);
        assert_eq!(places(1).next(), Some(Some(40)));
        assert!(request.has(1) && !request.has(2));
    }
}
