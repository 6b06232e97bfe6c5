//! [`Overlay`]: the rows that changed since their key group was last folded into the table, in memory.

use crate::event::{KEY_GROUPS, KeyGroup, Millis};
use crate::group::{Timeout, TimeoutClock};
use crate::state::delta::DeltaRow;
use crate::state::due_times::{DueTimes, Entry};
use crate::state::state_table::KeyRow;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// One changed key. Without state and timeout it says that the key is gone, whatever the table holds.
#[derive(Debug)]
pub struct Row {
    hash: u64,
    /// The key and after it the state, in one place: whoever finds the one wants the other.
    bytes: Vec<u8>,
    key_len: usize,
    /// The number of the state's mark; none without state.
    number: Option<u32>,
    /// The timeout.
    pub timeout: Option<Timeout>,
}

/// The changed rows, by key group, and their timeouts by due time.
pub struct Overlay {
    groups: Vec<HashTable<Row>>,
    processing_due: DueTimes,
    event_due: DueTimes,
    bytes: usize,
    rows: usize,
}

/// What a row takes in memory besides its key and state, roughly.
pub(super) const ROW_BYTES: usize = 160;

/// So many rows are brought near at once: more than the processor waits for at the same time, and few enough to stay.
pub const NEAR: usize = 32;

impl Default for Overlay {
    fn default() -> Self {
        Overlay {
            groups: (0..KEY_GROUPS).map(|_| HashTable::new()).collect(),
            processing_due: DueTimes::default(),
            event_due: DueTimes::default(),
            bytes: 0,
            rows: 0,
        }
    }
}

impl Overlay {
    /// The row of a key, if it changed since it was folded.
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<&Row> {
        self.groups[group_of(hash)].find(slot(hash), |row| row.is_of(hash, key))
    }

    /// Brings the rows of these keys near to the processor. One by one, each look-up would wait for memory several times; of many that do
    /// not depend on each other, the waits are one.
    pub fn touch(&self, hashes: impl Iterator<Item = u64>) {
        let first_byte = |row: &Row| row.bytes.first().copied().unwrap_or_default();
        let row = |hash: u64| self.groups[group_of(hash)].find(slot(hash), |row| row.hash == hash);
        std::hint::black_box(hashes.filter_map(row).fold(0, |seen, row| seen ^ first_byte(row)));
    }

    /// Takes changed rows.
    pub fn apply_all(&mut self, changed: &[DeltaRow<'_>]) {
        for near in changed.chunks(NEAR) {
            self.touch(near.iter().map(|changed| xxh3_64(changed.key)));
            near.iter().for_each(|changed| self.apply(*changed));
        }
    }

    /// Takes a changed row.
    pub fn apply(&mut self, changed: DeltaRow<'_>) {
        let hash = xxh3_64(changed.key);
        let group = &mut self.groups[group_of(hash)];
        let entry = group.entry(slot(hash), |row| row.is_of(hash, changed.key), |row| slot(row.hash));
        let row = match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => entry.into_mut(),
            hashbrown::hash_table::Entry::Vacant(entry) => {
                self.rows += 1;
                self.bytes += ROW_BYTES + changed.key.len();
                entry.insert(Row::new(hash, changed)).into_mut()
            }
        };
        self.bytes -= row.state_len();
        row.set_state(changed.state);
        self.bytes += row.state_len();
        row.timeout = changed.timeout;
        if let Some(timeout) = changed.timeout {
            self.times(timeout.clock).push((timeout.at, hash));
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
    /// changes them, and until [`Overlay::settle`] they are due again.
    pub fn due(&mut self, clock: TimeoutClock, threshold: Millis) -> Vec<&Row> {
        self.with_times(clock, |times, overlay| times.take(threshold, |entry| overlay.is_current(clock, entry)));
        let taken = match clock {
            TimeoutClock::ProcessingTime => self.processing_due.taken(),
            TimeoutClock::EventTime => self.event_due.taken(),
        };
        taken.iter().flat_map(|&entry| self.current(clock, entry)).collect()
    }

    /// The batch that called what was due is applied.
    pub fn settle(&mut self) {
        for clock in [TimeoutClock::ProcessingTime, TimeoutClock::EventTime] {
            self.with_times(clock, |times, overlay| times.settle(|entry| overlay.is_current(clock, entry)));
        }
    }

    /// The earliest timeout on this clock.
    pub fn next_due(&mut self, clock: TimeoutClock) -> Option<Millis> {
        self.with_times(clock, |times, overlay| times.first(|entry| overlay.is_current(clock, entry)))
    }

    /// Bytes of memory, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Does something with the times of a clock and the rows, after the times were cleaned when most of them are stale.
    fn with_times<T>(&mut self, clock: TimeoutClock, work: impl FnOnce(&mut DueTimes, &Self) -> T) -> T {
        let mut times = std::mem::take(self.times(clock));
        if times.is_stale(self.rows) {
            let on_clock = |row: &Row| row.timeout.filter(|timeout| timeout.clock == clock);
            times.renew(self.rows().filter_map(|row| on_clock(row).map(|timeout| (timeout.at, row.hash))));
        }
        let done = work(&mut times, self);
        *self.times(clock) = times;
        done
    }

    fn times(&mut self, clock: TimeoutClock) -> &mut DueTimes {
        match clock {
            TimeoutClock::ProcessingTime => &mut self.processing_due,
            TimeoutClock::EventTime => &mut self.event_due,
        }
    }

    fn is_current(&self, clock: TimeoutClock, entry: Entry) -> bool {
        self.current(clock, entry).next().is_some()
    }

    /// The rows with this hash that have exactly this timeout; more than one only when two keys share a hash.
    fn current(&self, clock: TimeoutClock, (at, hash): Entry) -> impl Iterator<Item = &Row> {
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
    ROW_BYTES + row.bytes.len()
}

impl Row {
    fn new(hash: u64, row: DeltaRow<'_>) -> Self {
        let mut bytes = Vec::with_capacity(row.key.len() + row.state.map_or(0, |(state, _)| state.len()));
        bytes.extend_from_slice(row.key);
        Row { hash, bytes, key_len: row.key.len(), number: None, timeout: None }
    }

    fn is_of(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && self.key() == key
    }

    fn set_state(&mut self, state: Option<(&[u8], u32)>) {
        self.bytes.truncate(self.key_len);
        self.number = state.map(|(_, number)| number);
        self.bytes.extend_from_slice(state.map_or(&[], |(state, _)| state));
    }

    fn state_len(&self) -> usize {
        self.bytes.len() - self.key_len
    }

    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len]
    }

    /// The state and the number of its mark.
    pub fn state(&self) -> Option<(&[u8], u32)> {
        Some((&self.bytes[self.key_len..], self.number?))
    }

    /// The row, without what the overlay adds to it.
    pub fn to_key_row(&self) -> KeyRow {
        self.as_delta_row().to_key_row()
    }

    pub(super) fn as_delta_row(&self) -> DeltaRow<'_> {
        DeltaRow { key: self.key(), state: self.state(), timeout: self.timeout }
    }

    /// Whether the key is gone.
    pub fn is_gone(&self) -> bool {
        self.number.is_none() && self.timeout.is_none()
    }
}
