//! [`Deltas`]: the deltas of one partition in the order of batches, each checked against its commit.

use super::catalogue::Catalogue;
use super::fault::Fault;
use super::layout::Object;
use super::object::{Delta, checksum_of};
use super::store::CheckpointStore;
use crate::event::{BatchId, PartitionId};
use anyhow::Result;
use bytes::Bytes;
use std::collections::VecDeque;

/// So many batches are fetched together: object stores answer slowly, and serve many at once.
const BATCHES_AHEAD: u64 = 16;

/// What a batch did in a partition.
pub(super) enum Step {
    /// Nothing.
    Nothing,
    /// This, from an object of so many bytes.
    Delta(Box<Delta>, u64),
    /// Nobody knows.
    Fault(Fault),
}

/// The deltas of one partition.
pub(super) struct Deltas<'c> {
    store: &'c CheckpointStore,
    catalogue: &'c Catalogue,
    partition: PartitionId,
    next: u64,
    to: BatchId,
    ahead: VecDeque<(BatchId, Step)>,
}

impl<'c> Deltas<'c> {
    /// Those after one batch, or from the first on, up to another.
    pub fn new(
        store: &'c CheckpointStore,
        catalogue: &'c Catalogue,
        partition: PartitionId,
        after: Option<BatchId>,
        to: BatchId,
    ) -> Self {
        let next = after.map_or(0, |after| after.0 + 1);
        Deltas { store, catalogue, partition, next, to, ahead: VecDeque::new() }
    }

    fn fetch(&mut self) -> Result<()> {
        let end = (self.next + BATCHES_AHEAD).min(self.to.0 + 1);
        let batches: Vec<BatchId> = (self.next..end).map(BatchId).collect();
        let checksum = |batch: &BatchId| self.catalogue.commits.get(batch)?.partitions[self.partition.0 as usize].delta;
        let wanted: Vec<(BatchId, u64)> = batches.iter().filter_map(|batch| Some((*batch, checksum(batch)?))).collect();
        let objects: Vec<Object> = wanted.iter().map(|(batch, _)| Object::Delta(self.partition, *batch)).collect();
        let mut found = wanted.iter().zip(self.store.read_all(&objects)?).peekable();
        for batch in batches {
            let read = found.next_if(|((wanted, _), _)| *wanted == batch);
            let step = match read {
                _ if !self.catalogue.commits.contains_key(&batch) => {
                    Step::Fault(Fault::missing(&Object::Commit(batch)))
                }
                None => Step::Nothing,
                Some(((_, checksum), bytes)) => check(&Object::Delta(self.partition, batch), bytes, *checksum),
            };
            self.ahead.push_back((batch, step));
        }
        self.next = end;
        Ok(())
    }
}

impl Iterator for Deltas<'_> {
    type Item = Result<(BatchId, Step)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ahead.is_empty()
            && self.next <= self.to.0
            && let Err(error) = self.fetch()
        {
            return Some(Err(error));
        }
        self.ahead.pop_front().map(Ok)
    }
}

/// The delta of an object whose checksum its commit knows.
pub(super) fn check(object: &Object, bytes: Option<Bytes>, checksum: u64) -> Step {
    let Some(bytes) = bytes else { return Step::Fault(Fault::missing(object)) };
    match Delta::of_bytes(&object.name(), &bytes) {
        Err(error) => Step::Fault(Fault::damaged(object, &error)),
        Ok(_) if checksum_of(&bytes) != Some(checksum) => {
            Step::Fault(Fault::new(object, "it is whole, and not the one that its commit names"))
        }
        Ok(delta) => Step::Delta(Box::new(delta), bytes.len() as u64),
    }
}
