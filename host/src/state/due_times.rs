//! [`DueTimes`]: the timeouts of one clock, by due time.

use crate::event::Millis;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Timeouts of one clock, each as its time and the hash of its key.
///
/// Entries are not removed when a timeout changes: whoever takes one looks whether its row still has that timeout. Most are stale by
/// then, so they are not sorted before their time is near: they lie in spans of time, and only the span in which the clock stands is
/// a heap.
#[derive(Default)]
pub(super) struct DueTimes {
    near: BinaryHeap<Reverse<Entry>>,
    /// The spans before this one are in `near`; none when nothing is.
    near_end: Option<i64>,
    far: BTreeMap<i64, Vec<Entry>>,
    /// How many there are in both.
    entries: usize,
    /// What was taken, in order, and may be wanted again.
    taken: Vec<Entry>,
}

/// When a timeout is due, and the hash of its key.
pub(super) type Entry = (Millis, u64);

/// A span is 2^16 ms, about a minute.
const SPAN_BITS: u32 = 16;
/// Fewer entries than this are not worth cleaning.
const ENTRIES_MIN: usize = 4096;

impl DueTimes {
    /// Adds a timeout.
    pub fn push(&mut self, entry: Entry) {
        self.entries += 1;
        let span = span_of(entry.0);
        if self.near_end.is_some_and(|end| span < end) {
            self.near.push(Reverse(entry));
        } else {
            self.far.entry(span).or_default().push(entry);
        }
    }

    /// Takes what lies before the threshold and is current, beside what was taken before and is not settled.
    pub fn take(&mut self, threshold: Millis, is_current: impl Fn(Entry) -> bool) {
        let before = self.taken.len();
        let standing = span_of(threshold);
        while let Some(span) = self.far.first_entry()
            && *span.key() <= standing
        {
            match *span.key() < standing {
                true => self.taken.append(&mut span.remove()),
                false => self.near.extend(span.remove().into_iter().map(Reverse)),
            }
        }
        self.near_end = self.near_end.max(Some(standing.saturating_add(1)));
        while let Some(&Reverse(entry)) = self.near.peek()
            && entry.0 < threshold
        {
            self.near.pop();
            self.taken.push(entry);
        }
        self.entries -= self.taken.len() - before;
        self.taken.sort_unstable();
        self.taken.dedup();
        self.taken.retain(|&entry| is_current(entry));
    }

    /// What was taken and is not settled, in order.
    pub fn taken(&self) -> &[Entry] {
        &self.taken
    }

    /// The batch for which timeouts were taken is committed: those that its calls left as they were come again.
    pub fn settle(&mut self, is_current: impl Fn(Entry) -> bool) {
        for entry in std::mem::take(&mut self.taken) {
            if is_current(entry) {
                self.push(entry);
            }
        }
    }

    /// The earliest one that is current.
    pub fn first(&mut self, is_current: impl Fn(Entry) -> bool) -> Option<Millis> {
        let taken = self.taken.iter().copied().find(|&entry| is_current(entry)).map(|(at, _)| at);
        loop {
            match self.near.peek() {
                Some(&Reverse(entry)) if is_current(entry) => return Some(taken.map_or(entry.0, |at| at.min(entry.0))),
                Some(_) => {
                    self.near.pop();
                    self.entries -= 1;
                }
                None => {
                    let Some((span, entries)) = self.far.pop_first() else { return taken };
                    self.near.extend(entries.into_iter().map(Reverse));
                    self.near_end = self.near_end.max(Some(span.saturating_add(1)));
                }
            }
        }
    }

    /// Whether most entries are stale, when so many rows have a timeout at most.
    pub fn is_stale(&self, rows: usize) -> bool {
        self.entries > ENTRIES_MIN && self.entries > 4 * rows
    }

    /// Begins anew with what is current.
    pub fn renew(&mut self, current: impl Iterator<Item = Entry>) {
        (self.entries, self.near, self.far) = (0, BinaryHeap::new(), BTreeMap::new());
        current.for_each(|entry| self.push(entry));
    }
}

fn span_of(at: Millis) -> i64 {
    at.0 >> SPAN_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SPAN: i64 = 1 << SPAN_BITS;

    #[derive(Debug, Clone)]
    enum Step {
        Push(i64, u64),
        /// The key gets another timeout or none: entries of it are stale.
        Forget(u64),
        Take(i64),
        Settle,
        First,
        Renew,
    }

    fn step() -> impl Strategy<Value = Step> {
        let at = prop_oneof![-SPAN..4 * SPAN, Just(0), Just(SPAN - 1), Just(SPAN), Just(i64::MAX), Just(i64::MIN)];
        prop_oneof![
            6 => (at.clone(), 0..8_u64).prop_map(|(at, key)| Step::Push(at, key)),
            2 => (0..8_u64).prop_map(Step::Forget),
            3 => at.prop_map(Step::Take),
            2 => Just(Step::Settle),
            2 => Just(Step::First),
            1 => Just(Step::Renew),
        ]
    }

    proptest! {
        /// Against a sorted set of what is current. What was taken stays due until its key gets another timeout.
        #[test]
        fn what_is_current_comes_in_order_whatever_came_before(steps in proptest::collection::vec(step(), 0..60)) {
            let mut times = DueTimes::default();
            let mut current: BTreeSet<Entry> = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Push(at, key) => {
                        current.retain(|&(_, of)| of != key);
                        current.insert((Millis(at), key));
                        times.push((Millis(at), key));
                    }
                    Step::Forget(key) => current.retain(|&(_, of)| of != key),
                    Step::Take(threshold) => {
                        let due: Vec<Entry> = current.iter().copied().filter(|entry| entry.0 < Millis(threshold)).collect();
                        // Time does not go back before what was taken is settled.
                        if times.taken.iter().all(|entry| entry.0 < Millis(threshold)) {
                            times.take(Millis(threshold), |entry| current.contains(&entry));
                            prop_assert_eq!(times.taken(), due);
                        }
                    }
                    Step::Settle => times.settle(|entry| current.contains(&entry)),
                    Step::First => {
                        let first = current.first().map(|entry| entry.0);
                        prop_assert_eq!(times.first(|entry| current.contains(&entry)), first);
                    }
                    Step::Renew => {
                        times.settle(|entry| current.contains(&entry));
                        times.renew(current.iter().copied());
                    }
                }
            }
        }
    }
}
