//! [`Overlay`]: the rows that changed since their key group was last folded into the table, in memory.

use crate::event::{KEY_GROUPS, KeyGroup, Millis};
use crate::group::{Timeout, TimeoutClock};
use crate::state::delta::DeltaRow;
use crate::state::state_table::KeyRow;
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use xxhash_rust::xxh3::xxh3_64;

/// One changed key. Without state and timeout it says that the key is gone, whatever the table holds.
#[derive(Debug, Default)]
pub struct Row {
    /// The key.
    pub key: Box<[u8]>,
    hash: u64,
    /// The state and the number of its mark.
    pub state: Option<(Vec<u8>, u32)>,
    /// The timeout.
    pub timeout: Option<Timeout>,
}

/// The changed rows, by key group, and their timeouts by due time.
pub struct Overlay {
    groups: Vec<HashTable<Row>>,
    processing_due: DueHeap,
    event_due: DueHeap,
    bytes: usize,
    rows: usize,
}

/// Timeouts by due time. Entries are not removed when a timeout changes: one that no longer agrees with its row is skipped
/// when it comes up, and the heap is made anew when most of it is stale.
#[derive(Default)]
struct DueHeap(BinaryHeap<Reverse<(Millis, u64)>>);

/// What a row takes in memory besides its key and state, roughly.
pub(super) const ROW_BYTES: usize = 160;
/// Heaps smaller than this are not worth cleaning.
const HEAP_MIN: usize = 4096;

impl Default for Overlay {
    fn default() -> Self {
        Overlay {
            groups: (0..KEY_GROUPS).map(|_| HashTable::new()).collect(),
            processing_due: DueHeap::default(),
            event_due: DueHeap::default(),
            bytes: 0,
            rows: 0,
        }
    }
}

impl Overlay {
    /// The row of a key, if it changed since it was folded.
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<&Row> {
        self.groups[group_of(hash)].find(slot(hash), |row| &*row.key == key)
    }

    /// Takes a changed row.
    pub fn apply(&mut self, changed: DeltaRow<'_>) {
        let hash = xxh3_64(changed.key);
        let group = &mut self.groups[group_of(hash)];
        let entry = group.entry(slot(hash), |row| &*row.key == changed.key, |row| slot(row.hash));
        let row = match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => entry.into_mut(),
            hashbrown::hash_table::Entry::Vacant(entry) => {
                self.rows += 1;
                self.bytes += ROW_BYTES + changed.key.len();
                entry.insert(Row { key: changed.key.into(), hash, ..Row::default() }).into_mut()
            }
        };
        self.bytes -= row.state.as_ref().map_or(0, |(state, _)| state.len());
        match (&mut row.state, changed.state) {
            (Some((bytes, schema)), Some((state, written))) => {
                bytes.clear();
                bytes.extend_from_slice(state);
                *schema = written;
            }
            (place, state) => *place = state.map(|(state, schema)| (state.to_vec(), schema)),
        }
        self.bytes += row.state.as_ref().map_or(0, |(state, _)| state.len());
        row.timeout = changed.timeout;
        if let Some(timeout) = changed.timeout {
            let due = match timeout.clock {
                TimeoutClock::ProcessingTime => &mut self.processing_due,
                TimeoutClock::EventTime => &mut self.event_due,
            };
            due.0.push(Reverse((timeout.at, hash)));
        }
    }

    /// Takes out the rows of a key group: they are in the table now.
    pub fn take_group(&mut self, group: KeyGroup) -> HashTable<Row> {
        let taken = std::mem::take(&mut self.groups[usize::from(group.0)]);
        self.rows -= taken.len();
        self.bytes -= taken.iter().map(row_bytes).sum::<usize>();
        taken
    }

    /// What the rows of a key group take in memory.
    pub fn group_bytes(&self, group: KeyGroup) -> usize {
        self.group(group).iter().map(row_bytes).sum()
    }

    /// The rows of a key group.
    pub fn group(&self, group: KeyGroup) -> &HashTable<Row> {
        &self.groups[usize::from(group.0)]
    }

    /// How many rows.
    pub fn count(&self) -> usize {
        self.rows
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The rows whose timeout on this clock lies before the threshold, in the order of due time. They stay: their call
    /// changes them.
    pub fn due(&mut self, clock: TimeoutClock, threshold: Millis) -> Vec<&Row> {
        self.compact(clock);
        let mut heap = std::mem::take(self.heap(clock));
        let mut found: Vec<(Millis, u64)> = Vec::new();
        while let Some(Reverse((at, hash))) = heap.0.peek().copied()
            && at < threshold
        {
            heap.0.pop();
            found.push((at, hash));
        }
        found.dedup();
        // They are pushed again, so that a call that fails, or a batch that is run again, finds them.
        heap.0.extend(found.iter().copied().filter(|&(at, hash)| self.is_current(clock, at, hash)).map(Reverse));
        *self.heap(clock) = heap;
        found.into_iter().flat_map(|(at, hash)| self.current(clock, at, hash)).collect()
    }

    /// The earliest timeout on this clock.
    pub fn next_due(&mut self, clock: TimeoutClock) -> Option<Millis> {
        self.compact(clock);
        let mut heap = std::mem::take(self.heap(clock));
        while let Some(Reverse((at, hash))) = heap.0.peek().copied()
            && !self.is_current(clock, at, hash)
        {
            heap.0.pop();
        }
        let next = heap.0.peek().map(|Reverse((at, _))| *at);
        *self.heap(clock) = heap;
        next
    }

    /// Bytes of memory, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes a heap anew when most of it is stale, so that it stays in proportion to the rows.
    fn compact(&mut self, clock: TimeoutClock) {
        let entries = self.heap(clock).0.len();
        if entries <= HEAP_MIN || entries <= 4 * self.rows {
            return;
        }
        let on_clock = |row: &Row| row.timeout.filter(|timeout| timeout.clock == clock);
        let entries =
            self.rows().filter_map(|row| on_clock(row).map(|timeout| Reverse((timeout.at, row.hash)))).collect();
        self.heap(clock).0 = entries;
    }

    fn heap(&mut self, clock: TimeoutClock) -> &mut DueHeap {
        match clock {
            TimeoutClock::ProcessingTime => &mut self.processing_due,
            TimeoutClock::EventTime => &mut self.event_due,
        }
    }

    fn is_current(&self, clock: TimeoutClock, at: Millis, hash: u64) -> bool {
        self.current(clock, at, hash).next().is_some()
    }

    /// The rows with this hash that have exactly this timeout; more than one only when two keys share a hash.
    fn current(&self, clock: TimeoutClock, at: Millis, hash: u64) -> impl Iterator<Item = &Row> {
        let rows = self.groups[group_of(hash)].iter_hash(slot(hash));
        rows.filter(move |row| row.hash == hash && row.timeout == Some(Timeout { clock, at }))
    }
}

fn group_of(hash: u64) -> usize {
    usize::from(KeyGroup::of_hash(hash).0)
}

/// Where a key goes within its group's table. All hashes of a group agree in their low bits, which the table would use.
fn slot(hash: u64) -> u64 {
    hash.rotate_right(32)
}

fn row_bytes(row: &Row) -> usize {
    ROW_BYTES + row.key.len() + row.state.as_ref().map_or(0, |(state, _)| state.len())
}

impl Row {
    /// The row, without what the overlay adds to it.
    pub fn to_key_row(&self) -> KeyRow {
        KeyRow { key: self.key.to_vec(), state: self.state.clone(), timeout: self.timeout }
    }

    pub(super) fn as_delta_row(&self) -> DeltaRow<'_> {
        let state = self.state.as_ref().map(|(state, schema)| (state.as_slice(), *schema));
        DeltaRow { key: &self.key, state, timeout: self.timeout }
    }

    /// Whether the key is gone.
    pub fn is_gone(&self) -> bool {
        self.state.is_none() && self.timeout.is_none()
    }
}
