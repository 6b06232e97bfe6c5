//! [`Listing`]: which objects a checkpoint has.

use super::layout::{Folder, Object};
use super::store::{CheckpointStore, Listed};
use crate::event::{BatchId, Millis, PartitionId};
use anyhow::Result;
use std::collections::BTreeMap;

/// Which objects a checkpoint has, by kind.
#[derive(Debug, Default)]
pub struct Listing {
    /// Whether there is a checkpoint.
    pub metadata: Option<Stored>,
    /// Starts of hosts.
    pub epochs: BTreeMap<u64, Stored>,
    /// Plans.
    pub offsets: BTreeMap<BatchId, Stored>,
    /// How far files were read.
    pub positions: BTreeMap<BatchId, Stored>,
    /// Commits.
    pub commits: BTreeMap<BatchId, Stored>,
    /// Deltas.
    pub deltas: BTreeMap<(PartitionId, BatchId), Stored>,
    /// Snapshots.
    pub snapshots: BTreeMap<(PartitionId, BatchId), Stored>,
    /// Components, by their digest.
    pub components: BTreeMap<String, Stored>,
    /// Files of imported states, by name.
    pub imports: BTreeMap<String, Stored>,
}

/// What the store says of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its size.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: Millis,
}

impl Listing {
    /// Lists a checkpoint.
    pub fn read(store: &CheckpointStore) -> Result<Self> {
        let mut listing = Listing::default();
        for Listed { object, bytes, modified } in store.list(Folder::All)? {
            let stored = Stored { bytes, modified };
            match object {
                Object::Metadata => listing.metadata = Some(stored),
                Object::Epoch(epoch) => drop(listing.epochs.insert(epoch, stored)),
                Object::Offsets(batch) => drop(listing.offsets.insert(batch, stored)),
                Object::Positions(batch) => drop(listing.positions.insert(batch, stored)),
                Object::Commit(batch) => drop(listing.commits.insert(batch, stored)),
                Object::Delta(partition, batch) => drop(listing.deltas.insert((partition, batch), stored)),
                Object::Snapshot(partition, batch) => drop(listing.snapshots.insert((partition, batch), stored)),
                Object::Component(digest) if is_digest(&digest) => drop(listing.components.insert(digest, stored)),
                Object::Import(file) if is_file_name(&file) => drop(listing.imports.insert(file, stored)),
                // Files get these names, and a name must not lead out of their folder.
                Object::Component(_) | Object::Import(_) => {}
            }
        }
        Ok(listing)
    }

    /// All objects.
    pub fn objects(&self) -> impl Iterator<Item = (Object, Stored)> {
        let of_batch = |object: fn(BatchId) -> Object, all: &'_ BTreeMap<BatchId, Stored>| {
            all.iter().map(|(batch, stored)| (object(*batch), *stored)).collect::<Vec<_>>()
        };
        let mut objects: Vec<(Object, Stored)> =
            self.metadata.into_iter().map(|stored| (Object::Metadata, stored)).collect();
        objects.extend(self.epochs.iter().map(|(epoch, stored)| (Object::Epoch(*epoch), *stored)));
        objects.extend(of_batch(Object::Offsets, &self.offsets));
        objects.extend(of_batch(Object::Positions, &self.positions));
        objects.extend(of_batch(Object::Commit, &self.commits));
        let of_partition = |object: fn(PartitionId, BatchId) -> Object,
                            all: &'_ BTreeMap<(PartitionId, BatchId), Stored>| {
            all.iter().map(|((partition, batch), stored)| (object(*partition, *batch), *stored)).collect::<Vec<_>>()
        };
        objects.extend(of_partition(Object::Delta, &self.deltas));
        objects.extend(of_partition(Object::Snapshot, &self.snapshots));
        objects.extend(self.components.iter().map(|(digest, stored)| (Object::Component(digest.clone()), *stored)));
        objects.extend(self.imports.iter().map(|(file, stored)| (Object::Import(file.clone()), *stored)));
        objects.into_iter()
    }

    /// The snapshots of a partition up to a batch, newest first.
    pub fn snapshots_of(&self, partition: PartitionId, to: BatchId) -> impl Iterator<Item = (BatchId, Stored)> {
        let range = (partition, BatchId(0))..=(partition, to);
        self.snapshots.range(range).rev().map(|((_, batch), stored)| (*batch, *stored))
    }

    /// The bytes of the deltas of a partition after a batch, or from the first on, up to another.
    pub fn delta_bytes(&self, partition: PartitionId, after: Option<BatchId>, to: BatchId) -> u64 {
        let from = BatchId(after.map_or(0, |after| after.0 + 1));
        if from > to {
            return 0;
        }
        self.deltas.range((partition, from)..=(partition, to)).map(|(_, stored)| stored.bytes).sum()
    }
}

fn is_digest(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|digit| digit.is_ascii_hexdigit())
}

fn is_file_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_a_folder_are_no_names() {
        for name in ["../plan.db", "..", ".hidden", "a/b", ""] {
            assert!(!is_file_name(name), "{name}");
            assert!(!is_digest(name), "{name}");
        }
        assert!(is_file_name("000000-initial.jsonl") && is_digest("ab12"));
    }
}
