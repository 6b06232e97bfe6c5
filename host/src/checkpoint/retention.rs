//! Retention: which objects of a checkpoint nobody needs any more.
//!
//! Kept are the newest snapshots of each partition that are committed, and every plan, commit and delta from the oldest of them on, so
//! that each of these snapshots alone would do; and what holds outputs that are not known to be delivered. Objects are deleted oldest
//! first and commits before deltas, so a deletion that is cut short leaves what a later one finishes.

use super::layout::{Folder, Object};
use super::object::{self, Commit};
use super::store::CheckpointStore;
use crate::event::{BatchId, PartitionId};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Epochs that are kept for people who look back; only the newest one matters.
const EPOCHS_KEPT: usize = 100;
/// Deleted before somebody who waits is looked for.
const DELETED_AT_ONCE: usize = 50;

/// What there is, by kind.
#[derive(Debug, Default)]
struct Contents {
    epochs: BTreeSet<u64>,
    plans: BTreeSet<BatchId>,
    positions: BTreeSet<BatchId>,
    commits: BTreeSet<BatchId>,
    deltas: BTreeSet<(BatchId, PartitionId)>,
    snapshots: BTreeMap<PartitionId, BTreeSet<BatchId>>,
}

/// Deletes what nobody needs, with so many snapshots of each partition kept, until it is done or given up.
pub(super) fn delete_needless(store: &CheckpointStore, retained: usize, give_up: &dyn Fn() -> bool) -> Result<()> {
    let objects: Vec<Object> = store.list(Folder::All)?.into_iter().map(|listed| listed.object).collect();
    let newest =
        objects.iter().filter_map(|object| if let Object::Commit(batch) = object { Some(*batch) } else { None });
    let Some(newest) = newest.max().map(Object::Commit) else { return Ok(()) };
    let Some(found) = store.read(&newest)? else { return Ok(()) };
    // A commit that is damaged says nothing. The next one will.
    let Ok(commit) = object::of_text::<Commit>(&newest.name(), &found) else { return Ok(()) };
    let needless = needless(&objects, commit.partitions.len() as u32, commit.delivered, retained);
    for some in needless.chunks(DELETED_AT_ONCE) {
        if give_up() {
            break;
        }
        store.delete(some)?;
    }
    Ok(())
}

/// The objects that nobody needs, in the order in which they may be deleted. `delivered`: outputs up to this batch are.
pub fn needless(objects: &[Object], partitions: u32, delivered: Option<BatchId>, retained: usize) -> Vec<Object> {
    let contents = Contents::of(objects);
    let mut needless = contents.needless_state(partitions, delivered, retained).unwrap_or_default();
    let old_epochs = contents.epochs.len().saturating_sub(EPOCHS_KEPT);
    needless.extend(contents.epochs.iter().take(old_epochs).map(|&epoch| Object::Epoch(epoch)));
    needless
}

impl Contents {
    fn of(objects: &[Object]) -> Self {
        let mut contents = Contents::default();
        for object in objects {
            match object {
                Object::Epoch(epoch) => drop(contents.epochs.insert(*epoch)),
                Object::Offsets(batch) => drop(contents.plans.insert(*batch)),
                Object::Positions(batch) => drop(contents.positions.insert(*batch)),
                Object::Commit(batch) => drop(contents.commits.insert(*batch)),
                Object::Delta(partition, batch) => drop(contents.deltas.insert((*batch, *partition))),
                Object::Snapshot(partition, batch) => {
                    contents.snapshots.entry(*partition).or_default().insert(*batch);
                }
                // Few, and named by plans of which only some are left.
                Object::Metadata | Object::Component(_) | Object::Import(_) => {}
            }
        }
        contents
    }

    /// None when nothing may be deleted: a partition has too few snapshots, or nobody could tell how far files were read.
    fn needless_state(&self, partitions: u32, delivered: Option<BatchId>, retained: usize) -> Option<Vec<Object>> {
        let chain = self.chain()?;
        let floors: BTreeMap<PartitionId, BatchId> = (0..partitions)
            .map(|partition| Some((PartitionId(partition), self.floor(PartitionId(partition), &chain, retained)?)))
            .collect::<Option<_>>()?;
        let lowest = *floors.values().min()?;
        // Plans lead on from these positions only when the one after them is there.
        let positions = *self.positions.range(..=lowest).next_back()?;
        if positions.0 + 1 < lowest.0 {
            return None;
        }
        let is_delivered = |batch: BatchId| Some(batch) <= delivered;
        let below = |batches: &BTreeSet<BatchId>, lowest: BatchId| -> Vec<BatchId> {
            batches.range(..lowest).copied().collect()
        };
        let old = |batches: &BTreeSet<BatchId>| below(batches, lowest).into_iter().filter(|batch| is_delivered(*batch));
        let mut needless: Vec<Object> = old(&self.commits).map(Object::Commit).collect();
        needless.extend(old(&self.plans).map(Object::Offsets));
        // Also those that only the snapshots of other partitions need: what a commit names is there as long as the commit is.
        let old = self.deltas.range(..(lowest, PartitionId(0))).filter(|(batch, _)| is_delivered(*batch));
        needless.extend(old.map(|&(batch, partition)| Object::Delta(partition, batch)));
        for (partition, floor) in floors {
            let snapshots = self.snapshots.get(&partition).into_iter().flat_map(|snapshots| below(snapshots, floor));
            needless.extend(snapshots.map(|batch| Object::Snapshot(partition, batch)));
        }
        needless.extend(below(&self.positions, positions).into_iter().map(Object::Positions));
        Some(needless)
    }

    /// The newest commits without a gap: no snapshot before a gap leads to what comes after it.
    fn chain(&self) -> Option<std::ops::RangeInclusive<BatchId>> {
        let newest = *self.commits.last()?;
        let mut first = newest;
        for commit in self.commits.iter().rev().skip(1) {
            if commit.0 + 1 != first.0 {
                break;
            }
            first = *commit;
        }
        Some(first..=newest)
    }

    /// The oldest snapshot of a partition that is kept.
    fn floor(
        &self,
        partition: PartitionId,
        chain: &std::ops::RangeInclusive<BatchId>,
        retained: usize,
    ) -> Option<BatchId> {
        let snapshots = self.snapshots.get(&partition)?;
        snapshots.range(chain.clone()).rev().nth(retained.max(1) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARTITIONS: u32 = 3;

    /// What a host has written up to a batch.
    fn written(newest: u64, snapshots: &[BTreeSet<u64>], empty: &BTreeSet<(u64, u32)>) -> Vec<Object> {
        let mut objects = vec![Object::Metadata, Object::Offsets(BatchId(newest + 1))];
        for batch in 0..=newest {
            objects.extend([Object::Offsets(BatchId(batch)), Object::Commit(BatchId(batch))]);
            let is_full = |partition: &u32| !empty.contains(&(batch, *partition));
            objects.extend((0..PARTITIONS).filter(is_full).map(|id| Object::Delta(PartitionId(id), BatchId(batch))));
        }
        for (id, batches) in (0..).zip(snapshots) {
            for &batch in batches {
                objects.push(Object::Snapshot(PartitionId(id), BatchId(batch)));
                objects.push(Object::Positions(BatchId(batch)));
            }
        }
        objects
    }

    /// What a restore to the newest batch needs when it begins with these snapshots.
    fn needed(bases: &[u64], newest: u64, delivered: Option<u64>, empty: &BTreeSet<(u64, u32)>) -> Vec<Object> {
        let mut needed = Vec::new();
        let after_delivered = delivered.map_or(0, |delivered| delivered + 1);
        for (id, &base) in (0..).zip(bases) {
            needed.push(Object::Snapshot(PartitionId(id), BatchId(base)));
            for batch in after_delivered.min(base + 1)..=newest {
                needed.push(Object::Commit(BatchId(batch)));
                let is_wanted = batch > base || batch >= after_delivered;
                if is_wanted && !empty.contains(&(batch, id)) {
                    needed.push(Object::Delta(PartitionId(id), BatchId(batch)));
                }
            }
            needed.extend((base.min(after_delivered)..=newest).map(|batch| Object::Offsets(BatchId(batch))));
        }
        needed
    }

    /// Whether somebody can tell how far files were read.
    fn has_positions(left: &BTreeSet<&Object>, newest: u64) -> bool {
        (0..=newest).any(|base| {
            left.contains(&Object::Positions(BatchId(base)))
                && (base + 1..=newest).all(|batch| left.contains(&Object::Offsets(BatchId(batch))))
        })
    }

    proptest! {
        /// Whatever is left when the deletion is cut short anywhere: each of the newest snapshots leads to the newest batch.
        #[test]
        fn nothing_is_deleted_that_a_restore_needs(
            newest in 0_u64..30,
            snapshots in prop::collection::vec(prop::collection::btree_set(0_u64..34, 0..6), PARTITIONS as usize),
            empty in prop::collection::btree_set((0_u64..30, 0..PARTITIONS), 0..30),
            delivered in prop::option::of(0_u64..32),
            retained in 1_usize..4,
        ) {
            let objects = written(newest, &snapshots, &empty);
            let delivered = delivered.map(|batch| batch.min(newest));
            let deleted = needless(&objects, PARTITIONS, delivered.map(BatchId), retained);
            let committed = |id: usize| snapshots[id].iter().rev().copied().filter(|&batch| batch <= newest);
            let kept: Vec<Vec<u64>> = (0..snapshots.len()).map(|id| committed(id).take(retained).collect()).collect();
            if kept.iter().any(|kept| kept.len() < retained) {
                prop_assert!(deleted.is_empty(), "{deleted:?}");
                return Ok(());
            }
            for cut in 0..=deleted.len() {
                let left: BTreeSet<&Object> = objects.iter().filter(|object| !deleted[..cut].contains(object)).collect();
                for nth in 0..retained {
                    let bases: Vec<u64> = kept.iter().map(|kept| kept[nth]).collect();
                    for object in needed(&bases, newest, delivered, &empty) {
                        prop_assert!(left.contains(&object), "{object:?} is gone after {cut}");
                    }
                }
                prop_assert!(has_positions(&left, newest));
            }
            // And what is left is bounded: nothing is below all kept snapshots and delivered.
            let floor = kept.iter().filter_map(|kept| kept.last()).min().copied().unwrap_or(0);
            let left = objects.iter().filter(|object| !deleted.contains(object));
            for object in left {
                if let Object::Commit(batch) | Object::Offsets(batch) | Object::Delta(_, batch) = object {
                    prop_assert!(batch.0 >= floor || Some(batch.0) > delivered, "{object:?} is left");
                }
            }
        }

        #[test]
        fn what_is_deleted_leaves_nothing_to_delete(
            newest in 0_u64..30,
            snapshots in prop::collection::vec(prop::collection::btree_set(0_u64..30, 0..6), PARTITIONS as usize),
            retained in 1_usize..4,
        ) {
            let objects = written(newest, &snapshots, &BTreeSet::new());
            let delivered = Some(BatchId(newest));
            let deleted = needless(&objects, PARTITIONS, delivered, retained);
            let left: Vec<Object> = objects.into_iter().filter(|object| !deleted.contains(object)).collect();
            prop_assert_eq!(needless(&left, PARTITIONS, delivered, retained), Vec::new());
        }
    }

    #[test]
    fn snapshots_before_a_gap_do_not_count() {
        let snapshots = vec![BTreeSet::from([2, 5]); PARTITIONS as usize];
        let mut objects = written(6, &snapshots, &BTreeSet::new());
        assert!(!needless(&objects, PARTITIONS, Some(BatchId(6)), 2).is_empty());
        objects.retain(|object| *object != Object::Commit(BatchId(3)));
        assert!(needless(&objects, PARTITIONS, Some(BatchId(6)), 2).is_empty());
        let deleted = needless(&objects, PARTITIONS, Some(BatchId(6)), 1);
        assert!(deleted.contains(&Object::Snapshot(PartitionId(0), BatchId(2))), "{deleted:?}");
    }

    #[test]
    fn plans_stay_until_it_is_written_how_far_they_read() {
        let snapshots = vec![BTreeSet::from([2, 5]); PARTITIONS as usize];
        let mut objects = written(6, &snapshots, &BTreeSet::new());
        objects.retain(|object| !matches!(object, Object::Positions(_)));
        assert_eq!(needless(&objects, PARTITIONS, Some(BatchId(6)), 1), Vec::new());
    }

    #[test]
    fn the_newest_epochs_are_kept() {
        let epochs: Vec<Object> = (1..=103).map(Object::Epoch).collect();
        assert_eq!(needless(&epochs, 1, None, 2), epochs[..3]);
    }
}
