//! [`BlockCache`]: blocks that were read or written lately, of all streams, within a bound on their bytes.

use super::block::Block;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Enough for what many readers of some hundred busy streams have in common.
const BYTES_MAX_DEFAULT: usize = 64 << 20;
/// What a block takes besides its bytes.
const BLOCK_OVERHEAD_BYTES: usize = 256;

/// Blocks that were read or written lately. The one that was not used for the longest time goes first.
pub struct BlockCache {
    bytes_max: usize,
    logs: AtomicU64,
    kept: Mutex<Kept>,
}

/// Which block: the log, its partition, and the number of the block's first event.
pub(super) type BlockKey = (u64, u32, u64);

#[derive(Default)]
struct Kept {
    blocks: HashMap<BlockKey, (Arc<Block>, u64)>,
    by_use: BTreeMap<u64, BlockKey>,
    uses: u64,
    bytes: usize,
    hits: u64,
    misses: u64,
}

impl Default for BlockCache {
    fn default() -> Self {
        BlockCache::new(BYTES_MAX_DEFAULT)
    }
}

impl BlockCache {
    /// A cache of so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        BlockCache { bytes_max, logs: AtomicU64::new(0), kept: Mutex::default() }
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

    /// A number for a log that no other log has.
    pub(super) fn new_log(&self) -> u64 {
        self.logs.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, key: BlockKey) -> Option<Arc<Block>> {
        let mut kept = self.lock();
        let kept = &mut *kept;
        let Some((block, used)) = kept.blocks.get_mut(&key) else {
            kept.misses += 1;
            return None;
        };
        kept.hits += 1;
        kept.by_use.remove(used);
        kept.uses += 1;
        *used = kept.uses;
        kept.by_use.insert(kept.uses, key);
        Some(Arc::clone(block))
    }

    pub(super) fn put(&self, key: BlockKey, block: Arc<Block>) {
        let bytes = bytes_of(&block);
        if bytes > self.bytes_max {
            return;
        }
        let mut kept = self.lock();
        kept.remove(key);
        kept.uses += 1;
        let used = kept.uses;
        kept.blocks.insert(key, (block, used));
        kept.by_use.insert(used, key);
        kept.bytes += bytes;
        while kept.bytes > self.bytes_max
            && let Some((_, &oldest)) = kept.by_use.first_key_value()
        {
            kept.remove(oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, key: BlockKey) {
        if let Some((block, used)) = self.blocks.remove(&key) {
            self.by_use.remove(&used);
            self.bytes -= bytes_of(&block);
        }
    }
}

fn bytes_of(block: &Block) -> usize {
    block.text.len() + block.ends.len() * size_of::<u32>() + BLOCK_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize) -> Arc<Block> {
        Arc::new(Block { text: vec![b' '; bytes], ..Block::default() })
    }

    #[test]
    fn the_block_that_was_not_used_for_the_longest_time_goes_first() {
        let cache = BlockCache::new(3 * (1000 + BLOCK_OVERHEAD_BYTES));
        (0..3).for_each(|number| cache.put((0, 0, number), block(1000)));
        assert!(cache.get((0, 0, 0)).is_some());
        cache.put((0, 0, 3), block(900));
        let there: Vec<u64> = (0..4).filter(|&number| cache.get((0, 0, number)).is_some()).collect();
        assert_eq!(there, [0, 2, 3]);
        assert_eq!(cache.bytes(), 2900 + 3 * BLOCK_OVERHEAD_BYTES);
        cache.put((0, 0, 4), block(1 << 20));
        assert!(cache.get((0, 0, 4)).is_none(), "one that is larger than the cache drives nothing out");
        assert_eq!(cache.bytes(), 2900 + 3 * BLOCK_OVERHEAD_BYTES);
    }
}
