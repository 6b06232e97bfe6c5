//! [`Undelivered`]: the batches that wait for the sink, in order. The outputs of the first few are held in memory.
//!
//! All of them lie in the outbox of their partitions, so memory is only there to save reading them.

use crate::event::BatchId;
use crate::state::OutputBlock;
use std::collections::VecDeque;
use std::sync::Arc;

/// The outputs of a batch, one block for each partition.
pub(super) type Blocks = Arc<Vec<OutputBlock>>;

/// Batches that wait for the sink.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    batches: VecDeque<Waiting>,
    held_bytes: usize,
}

/// A batch that waits.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub batch: BatchId,
    /// None when there was no room for them, or they were never in memory.
    pub blocks: Option<Blocks>,
}

impl Undelivered {
    /// Adds a batch, and keeps its outputs when that does not take the memory over `bytes_max`. A batch that finds nothing in
    /// memory keeps them in any case: it is the next one, and would only be read again as a whole.
    pub fn push(&mut self, batch: BatchId, blocks: Option<Vec<OutputBlock>>, bytes_max: usize) {
        let kept = blocks.filter(|blocks| self.held_bytes == 0 || self.held_bytes + bytes_of(blocks) <= bytes_max);
        self.held_bytes += kept.as_deref().map_or(0, bytes_of);
        self.batches.push_back(Waiting { batch, blocks: kept.map(Arc::new) });
    }

    /// The batch that is next.
    pub fn front(&self) -> Option<&Waiting> {
        self.batches.front()
    }

    /// The batch that was next is delivered.
    pub fn pop(&mut self) {
        if let Some(Waiting { blocks: Some(blocks), .. }) = self.batches.pop_front() {
            self.held_bytes -= bytes_of(&blocks);
        }
    }

    /// Bytes of outputs in memory.
    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

fn bytes_of(blocks: &[OutputBlock]) -> usize {
    blocks.iter().map(|block| block.lines.capacity()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize) -> Option<Vec<OutputBlock>> {
        Some(vec![OutputBlock { outputs: 1, lines: vec![b'1'; bytes] }])
    }

    #[test]
    fn memory_stays_below_the_limit_however_many_batches_wait() {
        let mut undelivered = Undelivered::default();
        for batch in 0..10_000 {
            undelivered.push(BatchId(batch), block(300), 1000);
            assert!(undelivered.held_bytes() <= 1000);
        }
        for batch in 0..10_000 {
            let next = undelivered.front().expect("it waits");
            assert_eq!((next.batch, next.blocks.is_some()), (BatchId(batch), batch < 3));
            undelivered.pop();
        }
        assert!(undelivered.front().is_none());
        assert_eq!(undelivered.held_bytes(), 0);
    }

    #[test]
    fn one_batch_may_be_larger_than_the_limit_when_it_is_alone() {
        let mut undelivered = Undelivered::default();
        undelivered.push(BatchId(0), block(5000), 1000);
        undelivered.push(BatchId(1), block(1), 1000);
        undelivered.push(BatchId(2), None, 1000);
        let held = |undelivered: &Undelivered| {
            undelivered.batches.iter().map(|waiting| waiting.blocks.is_some()).collect::<Vec<_>>()
        };
        assert_eq!(held(&undelivered), [true, false, false]);
        undelivered.pop();
        undelivered.push(BatchId(3), block(5000), 1000);
        assert_eq!(held(&undelivered), [false, false, true]);
    }
}
