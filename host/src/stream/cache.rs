//! [`BlockCache`]: blocks that were read or written lately, of all streams, and what rules have looked for in them, within a bound on
//! their bytes.

use super::block::Block;
use super::keying::{Keying, Keyings};
use crate::extract::Extracted;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Enough for what many readers of some hundred busy streams have in common.
const BYTES_MAX_DEFAULT: usize = 64 << 20;
/// What an entry takes besides its bytes.
const OVERHEAD_BYTES: usize = 256;

/// Blocks that were read or written lately, and their events as rules key them. What was not used for the longest time goes first.
pub struct BlockCache {
    bytes_max: usize,
    logs: AtomicU64,
    pub(super) keyings: Keyings,
    keyed: AtomicU64,
    kept: Mutex<Kept>,
}

/// Which block: the log, its partition, and the number of the block's first event.
pub(super) type BlockKey = (u64, u32, u64);

/// A block, or its events as the keying with this number finds them.
type EntryKey = (BlockKey, Option<u64>);

/// Events of a block, which whoever comes first looks for while the others wait.
type Events = Arc<OnceLock<Arc<Extracted>>>;

#[derive(Default)]
struct Kept {
    entries: HashMap<EntryKey, Entry>,
    by_use: BTreeMap<u64, EntryKey>,
    uses: u64,
    bytes: usize,
    hits: u64,
    misses: u64,
}

struct Entry {
    what: What,
    bytes: usize,
    used: u64,
}

enum What {
    Block(Arc<Block>),
    Events(Events),
}

impl Default for BlockCache {
    fn default() -> Self {
        BlockCache::new(BYTES_MAX_DEFAULT)
    }
}

impl BlockCache {
    /// A cache of so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let (logs, keyed) = (AtomicU64::new(0), AtomicU64::new(0));
        BlockCache { bytes_max, logs, keyings: Keyings::default(), keyed, kept: Mutex::default() }
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// How often a block was found, and how often not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        let kept = self.lock();
        (kept.hits, kept.misses)
    }

    /// How often the events of a block were looked for: once for each key and event time, as long as it keeps them.
    pub fn blocks_keyed(&self) -> u64 {
        self.keyed.load(Ordering::Relaxed)
    }

    /// A number for a log that no other log has.
    pub(super) fn new_log(&self) -> u64 {
        self.logs.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, key: BlockKey) -> Option<Arc<Block>> {
        let mut kept = self.lock();
        let found = kept.find((key, None));
        let block = match found {
            Some(What::Block(block)) => Some(Arc::clone(block)),
            _ => None,
        };
        *if block.is_some() { &mut kept.hits } else { &mut kept.misses } += 1;
        block
    }

    pub(super) fn put(&self, key: BlockKey, block: Arc<Block>) {
        let bytes = block.text.len() + block.ends.len() * size_of::<u32>();
        self.lock().put((key, None), What::Block(block), bytes, self.bytes_max);
    }

    /// The events of a block. Of many that ask for them at the same time one looks for them.
    pub(super) fn events(&self, key: BlockKey, block: &Block, keying: &Keying) -> Arc<Extracted> {
        let key = (key, Some(keying.number));
        let events = self.lock().events(key, self.bytes_max);
        let mut is_new = false;
        let found = events.get_or_init(|| {
            is_new = true;
            self.keyed.fetch_add(1, Ordering::Relaxed);
            Arc::new(keying.events_of(block))
        });
        if is_new {
            // How many bytes they are is known only now.
            self.lock().put(key, What::Events(Arc::clone(&events)), found.bytes(), self.bytes_max);
        }
        Arc::clone(found)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// What is kept, which is used now.
    fn find(&mut self, key: EntryKey) -> Option<&What> {
        let entry = self.entries.get_mut(&key)?;
        self.by_use.remove(&entry.used);
        self.uses += 1;
        entry.used = self.uses;
        self.by_use.insert(entry.used, key);
        Some(&entry.what)
    }

    /// The place for events, new if need be.
    fn events(&mut self, key: EntryKey, bytes_max: usize) -> Events {
        if let Some(What::Events(events)) = self.find(key) {
            return Arc::clone(events);
        }
        let events = Events::default();
        self.put(key, What::Events(Arc::clone(&events)), 0, bytes_max);
        events
    }

    fn put(&mut self, key: EntryKey, what: What, bytes: usize, bytes_max: usize) {
        self.remove(key);
        let bytes = bytes + OVERHEAD_BYTES;
        if bytes > bytes_max {
            return;
        }
        self.uses += 1;
        let used = self.uses;
        self.entries.insert(key, Entry { what, bytes, used });
        self.by_use.insert(used, key);
        self.bytes += bytes;
        while self.bytes > bytes_max
            && let Some((_, &oldest)) = self.by_use.first_key_value()
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, key: EntryKey) {
        if let Some(entry) = self.entries.remove(&key) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize) -> Arc<Block> {
        Arc::new(Block { text: vec![b' '; bytes], ..Block::default() })
    }

    fn keying(cache: &BlockCache, key: &str) -> Arc<Keying> {
        cache.keyings.of(&[key.to_owned()], None, None).expect("it is a pointer")
    }

    #[test]
    fn the_block_that_was_not_used_for_the_longest_time_goes_first() {
        let cache = BlockCache::new(3 * (1000 + OVERHEAD_BYTES));
        (0..3).for_each(|number| cache.put((0, 0, number), block(1000)));
        assert!(cache.get((0, 0, 0)).is_some());
        cache.put((0, 0, 3), block(900));
        let there: Vec<u64> = (0..4).filter(|&number| cache.get((0, 0, number)).is_some()).collect();
        assert_eq!(there, [0, 2, 3]);
        assert_eq!(cache.bytes(), 2900 + 3 * OVERHEAD_BYTES);
        cache.put((0, 0, 4), block(1 << 20));
        assert!(cache.get((0, 0, 4)).is_none(), "one that is larger than the cache drives nothing out");
        assert_eq!(cache.bytes(), 2900 + 3 * OVERHEAD_BYTES);
    }

    #[test]
    fn events_are_looked_for_once_for_each_keying() {
        let cache = BlockCache::default();
        let mut block = Block::default();
        (0..100).for_each(|number| block.push(format!(r#"{{"a":{number},"b":"b"}}"#).as_bytes()));
        let [a, b] = ["/a", "/b"].map(|key| keying(&cache, key));
        let threads: Vec<Arc<Extracted>> = std::thread::scope(|scope| {
            let asked = (0..8).map(|_| scope.spawn(|| cache.events((0, 0, 0), &block, &a))).collect::<Vec<_>>();
            asked.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        assert!(threads.iter().all(|events| Arc::ptr_eq(events, &threads[0])));
        assert_eq!(cache.blocks_keyed(), 1);
        let of_b = cache.events((0, 0, 0), &block, &b);
        assert_eq!(cache.blocks_keyed(), 2);
        assert_eq!((threads[0].key_of(&threads[0].events[99]), of_b.key_of(&of_b.events[99])), (&b"99"[..], &b"b"[..]));
        cache.events((0, 0, 1), &block, &a);
        assert_eq!(cache.blocks_keyed(), 3);
    }

    #[test]
    fn events_count_as_blocks_do_and_what_does_not_fit_is_found_all_the_same() {
        let mut block = Block::default();
        (0..10).for_each(|number| block.push(format!(r#"{{"k":{number}}}"#).as_bytes()));
        let one =
            Keyings::default().of(&["/k".to_owned()], None, None).expect("it is a pointer").events_of(&block).bytes();
        let cache = BlockCache::new(3 * (one + OVERHEAD_BYTES));
        let keying = keying(&cache, "/k");
        for number in 0..20 {
            assert_eq!(cache.events((0, 0, number), &block, &keying).events.len(), 10);
            assert!(cache.bytes() <= cache.bytes_max, "{} bytes", cache.bytes());
        }
        assert_eq!(cache.bytes(), 3 * (one + OVERHEAD_BYTES));
        let tiny = BlockCache::new(OVERHEAD_BYTES);
        for looked_for in 1..3 {
            assert_eq!(tiny.events((0, 0, 0), &block, &self::keying(&tiny, "/k")).events.len(), 10);
            assert_eq!((tiny.blocks_keyed(), tiny.bytes()), (looked_for, 0));
        }
    }
}
