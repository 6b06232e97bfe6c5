//! Streams made at random, with keys that come, change and go: every batch that is kept reads as it did when it was new.

use super::Readable;
use crate::support::rules::{Setup, Trial, event};
use keyfold::event::Millis;
use keyfold::r#gen::Random;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// More than two rotations of 64 commits, so that every key group is folded, changed, and folded again.
const BATCHES: u64 = 180;
const KEYS: u32 = 60;

/// A stream on its way, and what its state was after each batch.
struct Story {
    trial: Trial,
    random: Random,
    /// What is said when something is wrong, so that it can be seen again.
    name: String,
    time_ms: i64,
    history_batches: u64,
    seen: Vec<Vec<Value>>,
    oldest: u64,
}

fn setup(partitions: u32, history_batches: u64) -> Setup {
    Setup { partitions, history_batches, ..Setup::guest("either-timeout") }
}

impl Story {
    fn new(seed: u64, history_batches: u64) -> Self {
        let mut random = Random::new(seed, 0);
        let partitions = random.between(1, 4);
        let name = format!("seed {seed}, {partitions} partitions, history of {history_batches}");
        let trial = setup(partitions, history_batches).open();
        Story { trial, random, name, time_ms: 0, history_batches, seen: Vec::new(), oldest: 0 }
    }

    fn run_batch(&mut self) {
        self.time_ms += i64::from(self.random.below(6_000));
        self.trial.clock.advance_to(Millis(self.time_ms));
        let lines: Vec<String> = (0..self.random.below(9)).map(|_| self.event()).collect();
        self.trial.run_with_watermark(&lines, Some(self.time_ms - 5_000));
        self.oldest = self.oldest.max((self.seen.len() as u64).saturating_sub(self.history_batches));
        let readable = Readable::of(&self.trial);
        assert_eq!(readable.batches(), (self.oldest, self.seen.len() as u64), "{}", self.name);
        self.seen.push(readable.newest());
    }

    /// Some keys have a timeout on one clock, some on the other, and some nothing but a timeout.
    fn event(&mut self) -> String {
        let kind = self.random.one_of(&["event", "other", "stateless"]);
        event(&format!("{kind}-{}", self.random.below(KEYS)), self.time_ms + i64::from(self.random.below(4_000)))
    }

    fn restart(self) -> Self {
        let partitions = self.trial.partitions;
        let trial = setup(partitions, self.history_batches).open_in(self.trial.close());
        Story { trial, ..self }
    }

    fn check(&mut self) {
        let readable = Readable::of(&self.trial);
        let last = self.seen.len() as u64 - 1;
        for batch in self.oldest..=last {
            let expected = &self.seen[batch as usize];
            assert_eq!(&readable.at(batch), expected, "{}: batch {batch} of {last}", self.name);
            self.check_changes(&readable, batch);
            let key = format!("other-{}", self.random.below(KEYS));
            let listed = expected.iter().find(|line| line["key"] == key.as_str());
            let got = readable.get_at(batch, &key);
            assert_eq!(got.map(|line| line["value"].clone()), listed.map(|line| line["value"].clone()), "{key}");
        }
    }

    /// What a batch changed leads from the state before it to the state after it.
    fn check_changes(&self, readable: &Readable, batch: u64) {
        let by_key = |lines: &[Value]| -> BTreeMap<String, Value> {
            lines.iter().map(|line| (line["key"].to_string(), line.clone())).collect()
        };
        let before = batch.checked_sub(1).map_or(&[][..], |before| &self.seen[before as usize]);
        let mut replayed = by_key(before);
        for change in readable.changes(batch, batch) {
            assert_eq!(change["batch_id"], batch);
            let key = change["key"].to_string();
            match change["change_type"].as_str() {
                Some("delete") => assert!(replayed.remove(&key).is_some(), "{}: {change}", self.name),
                Some("update") => drop(replayed.insert(key, row_of(change))),
                _ => panic!("{}: {change}", self.name),
            }
        }
        assert_eq!(replayed, by_key(&self.seen[batch as usize]), "{}: the changes of batch {batch}", self.name);
    }
}

/// The row that an update leaves.
fn row_of(mut change: Value) -> Value {
    let members = change.as_object_mut().expect("a line is an object");
    members.retain(|name, value| !matches!(name.as_str(), "batch_id" | "change_type") && !value.is_null());
    change
}

/// Among many rows, the few that a fold replaces are looked up one by one.
#[test]
fn a_few_keys_among_many_read_as_they_were() {
    const ROWS: u32 = 8_000;
    let key = |number: u32| format!("key-{number}");
    let seed = fresh_seed();
    let mut random = Random::new(seed, 0);
    let mut trial = Setup::guest("slow").open();
    trial.run(&(0..ROWS).map(|number| event(&key(number), 1)).collect::<Vec<_>>());
    let mut counts = vec![[1; 6]];
    for batch in 1..BATCHES {
        let mut next = counts[batch as usize - 1];
        let changed = random.below(6) as usize;
        next[changed] += 1;
        counts.push(next);
        // Others come, so that a key is gone where the undo leads to.
        trial.run(&[event(&key(changed as u32), 1), event(&key(ROWS + batch as u32), 1)]);
    }
    let readable = Readable::of(&trial);
    for batch in BATCHES - 101..BATCHES {
        let count = |number: u32| readable.get_at(batch, &key(number)).map(|line| line["value"]["count"].clone());
        let found: Vec<u64> =
            (0..6).map(|number| count(number).and_then(|count| count.as_u64()).unwrap_or(0)).collect();
        assert_eq!(found, counts[batch as usize], "seed {seed}, batch {batch}");
        assert_eq!(count(ROWS + batch as u32), Some(1.into()), "seed {seed}, batch {batch}");
        assert_eq!(count(ROWS + batch as u32 + 1), None, "seed {seed}, batch {batch}");
    }
}

/// Another one in every run. Every message of a failure names it.
fn fresh_seed() -> u64 {
    RandomState::new().hash_one(0)
}

#[test]
fn every_batch_that_is_kept_reads_as_it_did_when_it_was_new() {
    for (seed, history_batches) in [(1, 100), (2, 1_000), (fresh_seed(), 20)] {
        let mut story = Story::new(seed, history_batches);
        for batch in 0..BATCHES {
            story.run_batch();
            if story.random.below(20) == 0 {
                story = story.restart();
            }
            if batch % 90 == 89 {
                story.check();
            }
        }
    }
}

#[test]
fn a_history_that_is_made_longer_or_shorter_never_shows_what_is_not_whole() {
    for seed in [11, fresh_seed()] {
        let mut story = Story::new(seed, 0);
        for _ in 0..BATCHES {
            story.run_batch();
            if story.random.below(12) == 0 {
                story.check();
                story.history_batches = story.random.one_of(&[0, 1, 2, 10, 50, 200]);
                story = story.restart();
            }
        }
        story.check();
    }
}
