//! Restoring one partition: its newest snapshot that is whole, and the deltas after it up to the last one that is.

use super::catalogue::Catalogue;
use super::deltas::{Deltas, Step};
use super::fault::Fault;
use super::layout::Object;
use super::listing::Stored;
use super::snapshot;
use super::store::CheckpointStore;
use crate::event::{BatchId, PartitionId};
use crate::state::partition_db;
use crate::state::restored::{RestoredCounts, RestoredPartition};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{BufReader, Seek, Write};
use std::path::Path;

/// How a partition was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionRestored {
    /// Which one.
    pub partition: PartitionId,
    /// The snapshot that it was begun with; none when it was made from deltas alone.
    pub snapshot: Option<BatchId>,
    /// Where it stands; none before the first batch.
    pub batch: Option<BatchId>,
    /// Keys with state or a timeout.
    pub keys: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Outputs that are not known to be delivered: the next run delivers them.
    pub undelivered_outputs: u64,
}

/// Restores partitions, several at a time.
pub(super) struct PartitionRestore<'c> {
    pub store: &'c CheckpointStore,
    pub catalogue: &'c Catalogue,
    /// The data folder that is being made.
    pub folder: &'c Path,
    /// Up to this batch; none when nothing is committed.
    pub to: Option<BatchId>,
    /// Outputs up to this batch are delivered.
    pub delivered: Option<BatchId>,
    /// Called with the bytes that were read.
    pub read: &'c (dyn Fn(u64) + Sync),
}

/// Where a partition begins.
#[derive(Debug, Clone, Copy)]
enum Base {
    Nothing,
    Snapshot(BatchId, Stored),
}

/// What became of an attempt.
enum Attempt {
    Done(PartitionRestored),
    /// Something that it needs is damaged or missing: an older snapshot may do.
    Fault(Fault),
}

impl PartitionRestore<'_> {
    /// Restores a partition. Adds the objects that were found damaged or missing.
    pub fn restore(&self, partition: PartitionId, faults: &mut Vec<Fault>) -> Result<PartitionRestored> {
        let bases = self.bases(partition);
        for base in &bases {
            match self.attempt(partition, *base, faults)? {
                Attempt::Done(restored) => return Ok(restored),
                Attempt::Fault(fault) => faults.push(fault),
            }
            let path = partition_db::path_of(self.folder, partition);
            if path.exists() {
                fs::remove_file(&path)?;
            }
        }
        let listed: Vec<String> = faults.iter().map(ToString::to_string).collect();
        match self.catalogue.listing.snapshots_of(partition, BatchId(u64::MAX)).last() {
            Some((oldest, _)) if bases.is_empty() => bail!(
                "partition {partition} cannot be restored to batch {}: its oldest snapshot is of batch {oldest}",
                self.to.map_or(-1, |batch| batch.0 as i64)
            ),
            _ => bail!("partition {partition} has no snapshot that can be used; {}", listed.join("; ")),
        }
    }

    /// How many bytes a partition is likely to take.
    pub fn bytes_of(&self, partition: PartitionId) -> u64 {
        let (Some(to), Some(base)) = (self.to, self.bases(partition).into_iter().next()) else { return 0 };
        let listing = &self.catalogue.listing;
        match base {
            Base::Nothing => listing.delta_bytes(partition, None, to),
            Base::Snapshot(_, stored) => stored.bytes + listing.delta_bytes(partition, self.outputs_after(base), to),
        }
    }

    /// Where it can begin, best first.
    fn bases(&self, partition: PartitionId) -> Vec<Base> {
        let listing = &self.catalogue.listing;
        let snapshots = self.to.into_iter().flat_map(|to| listing.snapshots_of(partition, to));
        let mut bases: Vec<Base> = snapshots.map(|(batch, stored)| Base::Snapshot(batch, stored)).collect();
        // With the first plan everything can be run again from the source.
        if self.catalogue.plans.contains_key(&BatchId(0)) || listing.offsets.is_empty() {
            bases.push(Base::Nothing);
        }
        bases
    }

    /// The deltas after this batch are needed: those after the snapshot, and before it those with outputs that may not be
    /// delivered.
    fn outputs_after(&self, base: Base) -> Option<BatchId> {
        match base {
            Base::Nothing => None,
            Base::Snapshot(batch, _) => self.delivered.min(Some(batch)),
        }
    }

    fn attempt(&self, partition: PartitionId, base: Base, faults: &mut Vec<Fault>) -> Result<Attempt> {
        let partitions = self.catalogue.metadata.identity.partitions;
        let mut file = RestoredPartition::create(self.folder, partition, partitions)?;
        let snapshot = match base {
            Base::Nothing => None,
            Base::Snapshot(batch, _) => {
                if let Some(fault) = self.put_snapshot(partition, batch, &mut file)? {
                    return Ok(Attempt::Fault(fault));
                }
                Some(batch)
            }
        };
        let mut at = snapshot;
        let after = self.outputs_after(base);
        let to = self.to.into_iter();
        for step in to.flat_map(|to| Deltas::new(self.store, self.catalogue, partition, after, to)) {
            let (batch, step) = step?;
            let is_before = snapshot.is_some_and(|snapshot| batch <= snapshot);
            match step {
                Step::Nothing => {}
                Step::Fault(fault) if is_before => return Ok(Attempt::Fault(fault)),
                Step::Fault(fault) => {
                    faults.push(fault);
                    break;
                }
                Step::Delta(delta, bytes) => {
                    (self.read)(bytes);
                    if self.delivered.is_none_or(|delivered| delivered < batch) {
                        file.put_outputs(batch, &delta.outputs)?;
                    }
                    if !is_before {
                        // Its checksum was right, so this is nobody's accident.
                        file.put_delta(&delta.changes)
                            .with_context(|| format!("{} cannot be applied", Object::Delta(partition, batch).name()))?;
                        file.put_dead_letters(batch, &delta.dead_letters, &delta.re_driven)?;
                    }
                }
            }
            at = at.max(Some(batch));
        }
        let counts = file.finish(at)?;
        self.check_rows(partition, at, counts)?;
        Ok(Attempt::Done(PartitionRestored {
            partition,
            snapshot,
            batch: at,
            keys: counts.rows,
            dead_letters: counts.dead_letters,
            undelivered_outputs: counts.outputs,
        }))
    }

    fn put_snapshot(
        &self,
        partition: PartitionId,
        batch: BatchId,
        file: &mut RestoredPartition,
    ) -> Result<Option<Fault>> {
        let object = Object::Snapshot(partition, batch);
        // Checked as a whole before any of it is used, and it may be larger than the memory.
        let Some(mut local) = self.fetch(&object)? else { return Ok(Some(Fault::missing(&object))) };
        let bytes = local.metadata()?.len();
        if let Err(error) = snapshot::check_stream(BufReader::new(&local), bytes) {
            return Ok(Some(Fault::damaged(&object, &error)));
        }
        local.rewind()?;
        let file = std::cell::RefCell::new(file);
        let counts = snapshot::read(
            BufReader::new(&local),
            |row| file.borrow_mut().put(row),
            |kept| file.borrow_mut().put_dead_letter(&kept),
        )
        .with_context(|| format!("{} cannot be used", object.name()))?;
        if let Some(commit) = self.catalogue.commits.get(&batch) {
            let rows = commit.partitions[partition.0 as usize].rows;
            if counts.rows != rows {
                let problem = format!("it has {} keys, and its commit says {rows}", counts.rows);
                return Ok(Some(Fault::new(&object, &problem)));
            }
        }
        Ok(None)
    }

    /// Copies an object to a file without a name.
    fn fetch(&self, object: &Object) -> Result<Option<File>> {
        let mut local = tempfile::tempfile_in(self.folder)?;
        let counted = Counted { file: &mut local, read: self.read };
        let found = self.store.download(object, counted)?;
        local.rewind()?;
        Ok(found.map(|_| local))
    }

    /// What was made has as many keys as the host had.
    fn check_rows(&self, partition: PartitionId, batch: Option<BatchId>, counts: RestoredCounts) -> Result<()> {
        let Some(commit) = batch.and_then(|batch| self.catalogue.commits.get(&batch)) else { return Ok(()) };
        let rows = commit.partitions[partition.0 as usize].rows;
        ensure!(
            counts.rows == rows,
            "partition {partition} has {} keys after it was restored, and its commit says {rows}: the checkpoint is wrong",
            counts.rows
        );
        Ok(())
    }
}

/// Tells how much was written.
struct Counted<'c> {
    file: &'c mut File,
    read: &'c (dyn Fn(u64) + Sync),
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        (self.read)(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
