//! [`Commit`]: the requests that are written together, as blocks. Nothing of it is remembered until it is on the disk.

use super::EventNumber;
use super::append::{AppendError, Appended, Placed};
use super::block::Block;
use super::notes::{Hash, Notes, ProducerNote, RequestNote};
use super::prepare::{Prepared, PreparedEvent};
use super::remembered::{Remembered, Request};
use crate::event::{Millis, Position};
use hashbrown::{HashMap, HashSet};

/// Requests that are written together.
pub(super) struct Commit<'w> {
    remembered: &'w Remembered,
    /// The last batch of each producer in each partition, as it was before.
    producers: Vec<&'w HashMap<String, u64>>,
    /// What the requests of this commit add to what is remembered: they may repeat one another.
    added: Remembered,
    added_ids: HashSet<Hash>,
    added_producers: HashMap<(u32, String), u64>,
    pub parts: Vec<Part>,
    block_bytes: usize,
    received: Millis,
}

/// What is written to a partition.
#[derive(Default)]
pub(super) struct Part {
    pub end: Position,
    pub blocks: Vec<(Block, Notes)>,
    /// Whether the last block takes no further event.
    is_full: bool,
}

impl<'w> Commit<'w> {
    /// Begins where the partitions end.
    pub fn new(
        remembered: &'w Remembered,
        partitions: impl Iterator<Item = (Position, &'w HashMap<String, u64>)>,
        block_bytes: usize,
        received: Millis,
    ) -> Self {
        let (ends, producers): (Vec<_>, Vec<_>) = partitions.unzip();
        Commit {
            remembered,
            producers,
            added: Remembered::new(usize::MAX),
            added_ids: HashSet::new(),
            added_producers: HashMap::new(),
            parts: ends.into_iter().map(|end| Part { end, ..Part::default() }).collect(),
            block_bytes,
            received,
        }
    }

    /// Adds a request. Its answer is true once the commit is on the disk.
    pub fn add(&mut self, request: &Prepared) -> Result<Appended, AppendError> {
        let known = request.request.and_then(|(key, body)| Some((self.known(&key)?, body)));
        let known = match known {
            Some((known, body)) if known.body != body => return Err(AppendError::KeyReused),
            known => known.map(|(known, _)| known.clone()),
        };
        let mut appended = Appended { repeated: known.is_some(), ..Appended::default() };
        let mut by_partition: Vec<Vec<(usize, &PreparedEvent)>> = vec![Vec::new(); self.parts.len()];
        for (index, event) in request.events.iter().enumerate() {
            by_partition[event.partition as usize].push((index, event));
        }
        for (partition, events) in (0..).zip(by_partition).filter(|(_, events)| !events.is_empty()) {
            match &known {
                Some(known) if known.has(partition) => repeat(known, partition, &events, &mut appended),
                _ if self.is_there(request, partition) => appended.duplicates += events.len() as u64,
                _ => {
                    let before = appended.accepted;
                    self.add_to(partition, &events, request, &mut appended);
                    appended.repeated &= appended.accepted == before;
                }
            }
        }
        appended.placed.sort_unstable_by_key(|placed| placed.index);
        Ok(appended)
    }

    fn known(&self, key: &Hash) -> Option<&Request> {
        self.remembered.request(key).or_else(|| self.added.request(key))
    }

    /// Whether a producer's batch is in the partition.
    fn is_there(&self, request: &Prepared, partition: u32) -> bool {
        let Some((producer, batch)) = &request.producer else { return false };
        let added = self.added_producers.get(&(partition, producer.clone()));
        let last = added.or_else(|| self.producers[partition as usize].get(producer));
        last.is_some_and(|last| batch <= last)
    }

    fn add_to(
        &mut self,
        partition: u32,
        events: &[(usize, &PreparedEvent)],
        request: &Prepared,
        appended: &mut Appended,
    ) {
        let part = &mut self.parts[partition as usize];
        let mut noting = Noting::default();
        for (ordinal, (index, event)) in (0..).zip(events) {
            if let Some(id) = event.id
                && (self.remembered.has_id(&id) || !self.added_ids.insert(id))
            {
                appended.duplicates += 1;
                noting.duplicates.push(ordinal);
                continue;
            }
            let number = part.push(event, self.block_bytes, self.received, &mut noting, request);
            appended.placed.push(Placed { index: *index, partition, number });
            appended.accepted += 1;
        }
        part.note(&mut noting, request);
        if noting.has_added {
            if let Some((producer, batch)) = &request.producer {
                self.added_producers.insert((partition, producer.clone()), *batch);
            }
            if let Some((key, _)) = request.request {
                let of_request = |notes: &Notes| notes.requests.iter().any(|note| note.key == key);
                for (block, notes) in part.blocks.iter().filter(|(_, notes)| of_request(notes)) {
                    let requests = notes.requests.iter().filter(|note| note.key == key).cloned().collect();
                    let notes = Notes { requests, ..Notes::default() };
                    self.added.add(partition, EventNumber(block.start.line), &notes);
                }
            }
        }
    }
}

/// A request's part of the block that is being filled.
#[derive(Default)]
struct Noting {
    first: u32,
    accepted: u32,
    duplicates: Vec<u32>,
    /// Whether any block has an event of it.
    has_added: bool,
}

impl Part {
    /// Adds an event to the last block, or to a new one.
    fn push(
        &mut self,
        event: &PreparedEvent,
        block_bytes: usize,
        received: Millis,
        noting: &mut Noting,
        request: &Prepared,
    ) -> EventNumber {
        if self.is_full || self.blocks.is_empty() {
            self.note(noting, request);
            let start = self.end;
            self.blocks.push((Block { start, received, ..Block::default() }, Notes::default()));
            self.is_full = false;
        }
        let Some((block, notes)) = self.blocks.last_mut() else { unreachable!("a block was just added") };
        if noting.accepted == 0 {
            noting.first = block.ends.len() as u32;
        }
        let number = EventNumber(self.end.line);
        block.push(&event.json);
        notes.ids.extend(event.id);
        noting.accepted += 1;
        noting.has_added = true;
        self.end = block.end();
        self.is_full = block.text.len() >= block_bytes;
        number
    }

    /// Notes the request in the last block, as far as it has events there.
    fn note(&mut self, noting: &mut Noting, request: &Prepared) {
        let Some((_, notes)) = self.blocks.last_mut().filter(|_| noting.accepted > 0) else { return };
        let (first, accepted) = (noting.first, std::mem::take(&mut noting.accepted));
        let duplicates = std::mem::take(&mut noting.duplicates);
        if let Some((key, body)) = request.request {
            notes.requests.push(RequestNote { key, body, first, accepted, duplicates });
        }
        if let Some((producer, batch)) = &request.producer {
            notes.producers.push(ProducerNote { producer: producer.clone(), batch: *batch });
        }
    }
}

/// Answers for a partition as the first time.
fn repeat(known: &Request, partition: u32, events: &[(usize, &PreparedEvent)], appended: &mut Appended) {
    for ((index, _), number) in events.iter().zip(known.places(partition)) {
        match number {
            None => appended.duplicates += 1,
            Some(number) => {
                appended.accepted += 1;
                appended.placed.push(Placed { index: *index, partition, number });
            }
        }
    }
}
