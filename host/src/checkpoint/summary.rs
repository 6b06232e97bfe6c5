//! [`Summary`]: what a checkpoint has, for people.

use super::catalogue::{self, Catalogue};
use super::fault::Fault;
use super::layout::Object;
use super::listing::Stored;
use super::object::Epoch;
use super::store::CheckpointStore;
use crate::clock::Clock;
use crate::event::{BatchId, Millis, PartitionId};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a checkpoint has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The rule.
    pub rule: String,
    /// The id of the history of batches.
    pub id: String,
    /// The first and the last plan.
    pub planned: Option<(BatchId, BatchId)>,
    /// The first and the last commit.
    pub committed: Option<(BatchId, BatchId)>,
    /// How long ago the last one was written.
    pub committed_age_ms: Option<i64>,
    /// Plans that are not committed.
    pub lag_batches: u64,
    /// Outputs up to this batch are known to be delivered.
    pub delivered: Option<BatchId>,
    /// Objects, and their bytes.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The partitions.
    pub partitions: Vec<PartitionSummary>,
    /// Starts of hosts, oldest first.
    pub epochs: Vec<EpochSummary>,
    /// Small objects that are damaged; `keyfold verify` looks at all.
    pub faults: Vec<Fault>,
}

/// What a checkpoint has of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionSummary {
    /// Which one.
    pub partition: PartitionId,
    /// Its keys after the last commit.
    pub keys: Option<u64>,
    /// Snapshots, oldest first.
    pub snapshots: Vec<SnapshotSummary>,
    /// Deltas.
    pub deltas: u64,
    /// Their bytes.
    pub delta_bytes: u64,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSummary {
    /// Its batch.
    pub batch: BatchId,
    /// Its size.
    pub bytes: u64,
    /// How long ago it was written.
    pub age_ms: i64,
}

/// A start of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EpochSummary {
    /// Its number.
    pub epoch: u64,
    /// When.
    pub time: Millis,
    /// On which machine.
    pub machine: String,
    /// Its data folder.
    pub folder: String,
}

impl Summary {
    /// Looks at a checkpoint.
    pub fn read(store: &CheckpointStore, clock: &Clock) -> Result<Self> {
        let Catalogue { listing, metadata, commits, mut faults, .. } = Catalogue::read(store)?;
        let epochs: BTreeMap<u64, Epoch> =
            catalogue::read_all(store, listing.epochs.keys(), Object::Epoch, &mut faults)?;
        let now = clock.now();
        let ends = |batches: &BTreeMap<BatchId, Stored>| {
            batches.keys().next().copied().zip(batches.keys().next_back().copied())
        };
        let (planned, committed) = (ends(&listing.offsets), ends(&listing.commits));
        let of_partition = |partition: PartitionId| {
            let mut snapshots: Vec<_> = listing.snapshots_of(partition, BatchId(u64::MAX)).collect();
            snapshots.reverse();
            let summary = |(batch, stored): (BatchId, Stored)| SnapshotSummary {
                batch,
                bytes: stored.bytes,
                age_ms: now.0 - stored.modified.0,
            };
            PartitionSummary {
                partition,
                keys: commits.values().next_back().map(|commit| commit.partitions[partition.0 as usize].rows),
                snapshots: snapshots.into_iter().map(summary).collect(),
                deltas: listing.deltas.keys().filter(|(of, _)| *of == partition).count() as u64,
                delta_bytes: listing.delta_bytes(partition, None, BatchId(u64::MAX)),
            }
        };
        let next = |ends: Option<(BatchId, BatchId)>| ends.map_or(0, |(_, last)| last.0 + 1);
        Ok(Summary {
            rule: metadata.identity.rule,
            id: metadata.identity.id,
            planned,
            committed,
            committed_age_ms: listing.commits.values().next_back().map(|stored| now.0 - stored.modified.0),
            lag_batches: next(planned).saturating_sub(next(committed)),
            delivered: commits.values().filter_map(|commit| commit.delivered).max(),
            objects: listing.objects().count() as u64,
            bytes: listing.objects().map(|(_, stored)| stored.bytes).sum(),
            partitions: (0..metadata.identity.partitions).map(PartitionId).map(of_partition).collect(),
            epochs: epochs
                .into_iter()
                .map(|(epoch, Epoch { time, machine, folder, .. })| EpochSummary { epoch, time, machine, folder })
                .collect(),
            faults,
        })
    }
}
