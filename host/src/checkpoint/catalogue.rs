//! [`Catalogue`]: the small objects of a checkpoint, read and checked: whose it is, plans, commits, positions.

use super::fault::Fault;
use super::layout::Object;
use super::listing::Listing;
use super::object::{self, Commit, Metadata, Offsets};
use super::positions::ReadPositions;
use super::store::CheckpointStore;
use crate::event::BatchId;
use crate::plan::Plan;
use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Objects that are read at once: a checkpoint may have thousands.
const READ_AT_ONCE: usize = 64;

/// The small objects of a checkpoint, as far as they are whole.
pub(super) struct Catalogue {
    pub listing: Listing,
    pub metadata: Metadata,
    pub plans: BTreeMap<BatchId, Plan>,
    pub commits: BTreeMap<BatchId, Commit>,
    pub positions: BTreeMap<BatchId, ReadPositions>,
    /// Those that are damaged.
    pub faults: Vec<Fault>,
}

impl Catalogue {
    /// Reads them. Fails when nobody can tell whose checkpoint it is.
    pub fn read(store: &CheckpointStore) -> Result<Self> {
        let listing = Listing::read(store)?;
        let found = store.read(&Object::Metadata)?;
        let found = found.with_context(|| format!("there is no checkpoint at {}: it has no metadata", store.url()))?;
        let metadata: Metadata = object::of_text(&Object::Metadata.name(), &found).context(
            "without it nobody can tell what the checkpoint belongs to; a host that goes on with it writes it anew",
        )?;
        ensure!(metadata.identity.partitions > 0, "the checkpoint's metadata names no partitions");
        let mut faults = Vec::new();
        let offsets: BTreeMap<BatchId, Offsets> =
            read_all(store, listing.offsets.keys(), Object::Offsets, &mut faults)?;
        let mut commits: BTreeMap<BatchId, Commit> =
            read_all(store, listing.commits.keys(), Object::Commit, &mut faults)?;
        let positions: BTreeMap<BatchId, ReadPositions> =
            read_all(store, listing.positions.keys(), Object::Positions, &mut faults)?;
        let mut plans = BTreeMap::new();
        for (batch, Offsets { plan, .. }) in offsets {
            match plan.batch == batch {
                true => drop(plans.insert(batch, plan)),
                false => faults.push(Fault::new(&Object::Offsets(batch), "it is the plan of another batch")),
            }
        }
        let partitions = metadata.identity.partitions as usize;
        commits.retain(|batch, commit| {
            let fits = commit.partitions.len() == partitions;
            if !fits {
                faults.push(Fault::new(&Object::Commit(*batch), "it has another number of partitions"));
            }
            fits
        });
        Ok(Catalogue { listing, metadata, plans, commits, positions, faults })
    }

    /// The newest batch that is committed.
    pub fn newest(&self) -> Option<BatchId> {
        self.commits.keys().next_back().copied()
    }

    /// Outputs up to this batch are known to be delivered.
    pub fn delivered(&self) -> Option<BatchId> {
        self.commits.values().filter_map(|commit| commit.delivered).max()
    }
}

/// Reads text objects; damaged ones become faults.
pub(super) fn read_all<'k, K: Copy + Ord + 'k, T: DeserializeOwned>(
    store: &CheckpointStore,
    keys: impl Iterator<Item = &'k K>,
    name: impl Fn(K) -> Object,
    faults: &mut Vec<Fault>,
) -> Result<BTreeMap<K, T>> {
    let keys: Vec<K> = keys.copied().collect();
    let mut all = BTreeMap::new();
    for keys in keys.chunks(READ_AT_ONCE) {
        let objects: Vec<Object> = keys.iter().map(|key| name(*key)).collect();
        for ((key, object), bytes) in keys.iter().zip(&objects).zip(store.read_all(&objects)?) {
            match bytes.map(|bytes| object::of_text(&object.name(), &bytes)) {
                Some(Ok(value)) => drop(all.insert(*key, value)),
                Some(Err(error)) => faults.push(Fault::damaged(object, &error)),
                // Deleted since it was listed.
                None => faults.push(Fault::missing(object)),
            }
        }
    }
    Ok(all)
}
