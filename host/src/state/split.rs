//! Splitting: the same rule, with the same states, in another number of partitions.
//!
//! Key groups move as a whole, so a row is copied and never looked into. The new files begin with the last batch, which all
//! partitions must have; what came before it cannot be read any more. Outputs on their way stay in the partition whose number is in
//! their ids.

use super::reader::PartitionReader;
use super::restored::RestoredPartition;
use super::{PlanLog, partition_db, switch};
use crate::event::{BatchId, KEY_GROUPS, KeyGroup, PartitionId};
use crate::folder_lock::FolderLock;
use crate::plan::Identity;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::Path;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// The number of partitions before.
    pub before: u32,
    /// The number of partitions now.
    pub after: u32,
    /// Keys that were copied.
    pub rows: u64,
    /// The last batch, and the oldest one that can be read now; none when none was committed.
    pub batch: Option<BatchId>,
}

/// Changes the number of partitions of a data folder that no host has.
pub fn split(folder: &Path, partitions: u32) -> Result<Split> {
    let (lock, split) = decide(folder, partitions)?;
    finish_locked(folder, &lock)?;
    Ok(split)
}

/// Makes the new files and decides that they are the rule's. They are not moved yet: whoever opens the folder does that.
pub fn prepare(folder: &Path, partitions: u32) -> Result<Split> {
    decide(folder, partitions).map(|(_, split)| split)
}

/// Finishes a split that was decided and cut short by a crash.
pub fn finish(folder: &Path) -> Result<()> {
    if switch::is_decided(folder) {
        finish_locked(folder, &FolderLock::take(folder)?)?;
    }
    Ok(())
}

/// Finishes a split that was decided, and deletes what is left of one that was not.
pub fn finish_locked(folder: &Path, _: &FolderLock) -> Result<()> {
    switch::carry_out(folder)
}

fn decide(folder: &Path, partitions: u32) -> Result<(FolderLock, Split)> {
    ensure!((1..=KEY_GROUPS).contains(&partitions), "partitions is {partitions}: 1 to {KEY_GROUPS} are possible");
    let is_folder = || format!("{} is not the data folder of a rule", folder.display());
    let identity = PlanLog::identity(folder)?.with_context(is_folder)?;
    let before = identity.partitions;
    ensure!(before != partitions, "the rule has {before} partitions already");
    let lock = FolderLock::take(folder)?;
    finish_locked(folder, &lock)?;
    let old = Old::open(folder, &identity)?;
    old.check_outputs(partitions)?;
    let new = switch::begin(folder)?;
    old.plan_log.copy(&new.join(switch::PLAN_LOG), partitions)?;
    File::open(new.join(switch::PLAN_LOG))?.sync_all()?;
    let rows = old.copy(&new, partitions)?;
    switch::decide(folder, partitions)?;
    Ok((lock, Split { before, after: partitions, rows, batch: old.last }))
}

/// The partitions as they are.
struct Old {
    plan_log: PlanLog,
    readers: Vec<PartitionReader>,
    last: Option<BatchId>,
    delivered: Option<BatchId>,
}

impl Old {
    /// Opens all partitions, which must have come to the last batch that was planned.
    fn open(folder: &Path, identity: &Identity) -> Result<Self> {
        let plan_log = PlanLog::open(folder, identity)?;
        let last = plan_log.last()?.map(|plan| plan.batch);
        let delivered = plan_log.delivered()?;
        let open = |id| PartitionReader::open(folder, PartitionId(id));
        let readers: Vec<_> = (0..identity.partitions).map(open).collect::<Result<_>>()?;
        for reader in &readers {
            ensure!(
                reader.committed() == last,
                "not everything that was planned is done: batch {} is the last that was planned, batch {} the last of \
                 partition {}; run the rule once more, and split then",
                shown(last),
                shown(reader.committed()),
                reader.partition()
            );
        }
        Ok(Old { plan_log, readers, last, delivered })
    }

    /// Outputs stay in their partition, so it must not go before they are delivered.
    fn check_outputs(&self, partitions: u32) -> Result<()> {
        for reader in self.readers.iter().skip(partitions as usize) {
            let waiting = reader.outputs_after(self.delivered)?.len();
            ensure!(
                waiting == 0,
                "the outputs of {waiting} batches in partition {} are not known to be delivered, and there would be no \
                 such partition: run the rule once more, and split then",
                reader.partition()
            );
        }
        Ok(())
    }

    /// Copies everything to the files of the new partitions. Returns how many rows there are.
    fn copy(&self, to: &Path, partitions: u32) -> Result<u64> {
        let create = |id| RestoredPartition::create(to, PartitionId(id), partitions);
        let mut new: Vec<RestoredPartition> = (0..partitions).map(create).collect::<Result<_>>()?;
        for reader in &self.readers {
            let of = |key: &[u8]| KeyGroup::of(key).partition(partitions).0 as usize;
            reader
                .kept_letters(|kept| match new.get_mut(reader.partition().0 as usize) {
                    // Letters are known by their partition and number, so they stay where that is possible.
                    Some(same) => same.put_dead_letter(&kept),
                    None => new[0].add_dead_letter(kept),
                })
                .with_context(|| format!("failed to copy the dead letters of partition {}", reader.partition()))?;
            if let Some(new) = new.get_mut(reader.partition().0 as usize) {
                for (batch, block) in reader.outputs_after(self.delivered)? {
                    new.put_outputs(batch, &block)?;
                }
            }
            if let Some(last) = self.last {
                reader.changes(last..=last, |_, row| {
                    new[of(&row.key)].put_change(row.as_delta_row());
                    Ok(())
                })?;
            }
        }
        let mut rows = 0;
        for (id, mut new) in (0..).map(PartitionId).zip(new) {
            let groups = partition_db::key_groups_of(id, partitions);
            self.copy_rows(&groups, &mut new).with_context(|| format!("failed to make partition {id}"))?;
            rows += new.finish(self.last)?.rows;
        }
        Ok(rows)
    }

    fn copy_rows(&self, groups: &[KeyGroup], new: &mut RestoredPartition) -> Result<()> {
        let Some(last) = self.last else { return Ok(()) };
        for old in &self.readers {
            let is_old = |group: &&KeyGroup| group.partition(old.partitions()) == old.partition();
            let shared: Vec<KeyGroup> = groups.iter().filter(is_old).copied().collect();
            if !shared.is_empty() {
                old.scan_groups_at(last, &shared, |_, row| new.put(row.as_delta_row()))?;
            }
        }
        Ok(())
    }
}

fn shown(batch: Option<BatchId>) -> String {
    batch.map_or_else(|| "none".to_owned(), |batch| batch.to_string())
}
