//! [`Grouped`]: the events of one partition in one batch, brought together by key.

use crate::event::{Millis, PartitionId};
use crate::input::BatchInput;
use anyhow::Result;
use hashbrown::HashTable;

/// The events of one key, as a range of [`Grouped::events`].
pub struct EventGroup {
    /// The number of its first event; it has the key.
    pub first_event: u32,
    /// Where its events begin.
    pub start: u32,
    /// Where they end.
    pub end: u32,
}

/// The events of a partition, by key. Neither keys nor payloads are moved.
pub struct Grouped {
    /// In the order of their first event.
    pub groups: Vec<EventGroup>,
    /// Event numbers, group after group, in source order within each.
    pub events: Vec<u32>,
    /// Late events, which are dropped.
    pub late: u64,
    /// The groups by key.
    by_key: HashTable<u32>,
}

impl Grouped {
    /// Groups a partition's events. Those at or before the watermark, when one is given, are late, unless they run again; they are
    /// dropped when that is so for their key.
    pub fn new(
        input: &BatchInput,
        partition: PartitionId,
        late_watermark: Option<Millis>,
        mut is_dropped: impl FnMut(u64, &[u8]) -> Result<bool>,
    ) -> Result<Self> {
        let mut groups: Vec<EventGroup> = Vec::new();
        let mut by_key: HashTable<u32> = HashTable::new();
        let mut group_of_event: Vec<(u32, u32)> = Vec::new();
        let mut late = 0;
        for &number in input.events_of(partition) {
            let event = input.event(number);
            let is_late = late_watermark.is_some_and(|watermark| event.time_ms <= watermark.0);
            let key = input.extracted.key_of(event);
            if is_late && !input.is_re_driven(event) && is_dropped(event.key_hash, key)? {
                late += 1;
                continue;
            }
            let first_of = |group: u32| input.event(groups[group as usize].first_event);
            let same_key = |&group: &u32| {
                let first = first_of(group);
                first.key_hash == event.key_hash && input.extracted.key_of(first) == key
            };
            let group = match by_key.find(slot(event.key_hash), same_key) {
                Some(&group) => group,
                None => {
                    let group = groups.len() as u32;
                    by_key.insert_unique(slot(event.key_hash), group, |&other| {
                        // The new group is not in the list yet.
                        if other == group { slot(event.key_hash) } else { slot(first_of(other).key_hash) }
                    });
                    groups.push(EventGroup { first_event: number, start: 0, end: 0 });
                    group
                }
            };
            groups[group as usize].end += 1;
            group_of_event.push((group, number));
        }
        let events = lay_out(&mut groups, &group_of_event);
        Ok(Grouped { groups, events, late, by_key })
    }

    /// Whether a key has events.
    pub fn has(&self, input: &BatchInput, hash: u64, key: &[u8]) -> bool {
        let is_key = |&group: &u32| {
            let first = input.event(self.groups[group as usize].first_event);
            first.key_hash == hash && input.extracted.key_of(first) == key
        };
        self.by_key.find(slot(hash), is_key).is_some()
    }
}

/// The low bits of a hash say the key group, which is much the same for all keys of a partition.
fn slot(hash: u64) -> u64 {
    hash.rotate_right(32)
}

/// Turns the groups' counts, which stand in `end`, into ranges, and puts each event into its group's range.
fn lay_out(groups: &mut [EventGroup], group_of_event: &[(u32, u32)]) -> Vec<u32> {
    let mut next = 0;
    for group in groups.iter_mut() {
        group.start = next;
        next += group.end;
        group.end = group.start;
    }
    let mut events = vec![0; group_of_event.len()];
    for &(group, number) in group_of_event {
        let group = &mut groups[group as usize];
        events[group.end as usize] = number;
        group.end += 1;
    }
    events
}
