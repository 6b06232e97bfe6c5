//! [`Snapshots`]: the thread that takes snapshots of partitions in turn, and deletes what they make needless.
//!
//! A snapshot is copied to a file at once, so that the read transaction is short, and uploaded when its batch is committed in the
//! checkpoint: then every host would write the same, and one that sleeps and writes it late does no harm.

use super::backoff::Backoff;
use super::beginning::Snapshot;
use super::epochs;
use super::layout::{Folder, Object};
use super::ledger::Ledger;
use super::object::{self, Offsets};
use super::positions::{ReadPositions, advance};
use super::refusal::is_trouble_of_store;
use super::retention;
use super::snapshot;
use super::writer::Writer;
use crate::event::{BatchId, PartitionId, Positions};
use anyhow::{Context, Result};
use std::io::Read;
use std::sync::Arc;
use tracing::warn;

/// Larger snapshots go in parts, and are not compared.
const COMPARED_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Plans that are read together.
const PLANS_AT_ONCE: u64 = 64;

/// Takes snapshots of partitions in turn.
pub(super) struct Snapshots {
    pub ledger: Arc<Ledger>,
    pub writer: Writer,
    pub partitions: u32,
    /// Each partition in so many batches.
    pub every: u64,
    /// So many of each partition are kept.
    pub retained: usize,
}

/// What is known of the snapshots that there are.
#[derive(Default)]
struct Taken {
    /// The newest one of each partition.
    last: Vec<Option<BatchId>>,
    /// How far the plans up to a batch have read, once that was asked for.
    positions: Option<(BatchId, Positions)>,
    /// What the oldest of the newest ones was when needless objects were deleted.
    deleted_at: Option<BatchId>,
}

impl Snapshots {
    /// Takes snapshots until it is stopped.
    pub fn run(self) {
        if !self.ledger.wait_until(|_| true) {
            return;
        }
        let mut backoff = Backoff::default();
        let mut taken = None;
        loop {
            match self.attempt(&mut taken) {
                Ok(true) => drop(backoff.worked()),
                Ok(false) => return,
                Err(error) if is_trouble_of_store(&error) => {
                    let (wait, is_first) = backoff.failed();
                    if is_first {
                        warn!("{error:#}: snapshots wait until this works again");
                    }
                    self.ledger.pause(wait, || false);
                }
                Err(error) => return self.ledger.fail(&error),
            }
            if self.ledger.is_stopping() {
                return;
            }
        }
    }

    /// Takes a snapshot when one is due, else waits for another batch; false when it is stopped.
    fn attempt(&self, taken: &mut Option<Taken>) -> Result<bool> {
        let taken = match taken {
            Some(taken) => taken,
            None => taken.insert(self.find()?),
        };
        let shipped = self.ledger.reached().shipped;
        match self.due(taken, shipped) {
            Some(partition) => self.take(partition, taken),
            None => {
                self.ledger.no_snapshot_due_at(shipped);
                Ok(self.ledger.wait_until(|now| now != shipped))
            }
        }
    }

    /// The snapshots that the checkpoint has.
    fn find(&self) -> Result<Taken> {
        let newest = |partition| -> Result<Option<BatchId>> {
            let listed = self.writer.store.list(Folder::Partition(PartitionId(partition)))?;
            let batches = listed.into_iter().filter_map(|listed| match listed.object {
                Object::Snapshot(_, batch) => Some(batch),
                _ => None,
            });
            Ok(batches.max())
        };
        let last = (0..self.partitions).map(newest).collect::<Result<_>>()?;
        Ok(Taken { last, ..Taken::default() })
    }

    /// A partition whose snapshot is due. The first ones are spread, and with them all later ones.
    fn due(&self, taken: &Taken, shipped: Option<BatchId>) -> Option<PartitionId> {
        let shipped = shipped?;
        let due_at = |(partition, last): (u64, &Option<BatchId>)| match last {
            Some(last) => last.0 + self.every,
            None => (self.every * (partition + 1) / u64::from(self.partitions)).max(1) - 1,
        };
        let next = (0..).zip(&taken.last).min_by_key(|&partition| due_at(partition))?;
        (due_at(next) <= shipped.0).then_some(PartitionId(next.0 as u32))
    }

    fn take(&self, partition: PartitionId, taken: &mut Taken) -> Result<bool> {
        let snapshot = Snapshot::take(&self.writer.folder, partition)?;
        if !self.ledger.wait_shipped(snapshot.batch, || false)? {
            return Ok(false);
        }
        epochs::check(&self.writer.store, self.writer.epoch)?;
        // Before the snapshot: with it, older plans may be deleted.
        self.write_positions(snapshot.batch, taken)?;
        self.upload(partition, &snapshot)?;
        taken.last[partition.0 as usize] = Some(snapshot.batch);
        let lowest = taken.last.iter().min().copied().flatten();
        if lowest > taken.deleted_at {
            retention::delete_needless(&self.writer.store, self.retained, &|| self.ledger.is_stopping())?;
            taken.deleted_at = lowest;
        }
        Ok(true)
    }

    fn upload(&self, partition: PartitionId, taken: &Snapshot) -> Result<()> {
        let object = Object::Snapshot(partition, taken.batch);
        if taken.file.metadata()?.len() > COMPARED_BYTES_MAX {
            let content = Interruptible { content: taken.content()?, ledger: &self.ledger };
            return self.writer.store.upload(&object, content);
        }
        let mut bytes = Vec::new();
        taken.content()?.read_to_end(&mut bytes)?;
        let Some(found) = self.writer.create(&object, &bytes.clone().into())? else { return Ok(()) };
        if let Err(error) = snapshot::check_bytes(&found) {
            warn!("{}: {error:#}: it is written anew", object.name());
            self.writer.store.overwrite(&object, bytes.into())?;
        }
        Ok(())
    }

    /// Writes how far the plans up to a batch have read every file.
    fn write_positions(&self, batch: BatchId, taken: &mut Taken) -> Result<()> {
        let (from, mut positions) = match taken.positions.take() {
            Some((at, positions)) if at <= batch => (at.0 + 1, positions),
            _ => self.stored_positions(batch)?,
        };
        let store = &self.writer.store;
        let mut next = from;
        while next <= batch.0 {
            let end = (next + PLANS_AT_ONCE).min(batch.0 + 1);
            let objects: Vec<Object> = (next..end).map(|batch| Object::Offsets(BatchId(batch))).collect();
            for (object, bytes) in objects.iter().zip(store.read_all(&objects)?) {
                let bytes = bytes.with_context(|| format!("{} is gone from the checkpoint", object.name()))?;
                let Offsets { plan, .. } = object::of_text(&object.name(), &bytes)?;
                advance(&mut positions, &plan.ranges);
            }
            next = end;
        }
        let read = ReadPositions::new(batch, &positions);
        taken.positions = Some((batch, positions));
        self.writer.create_or_mend(&Object::Positions(batch), object::to_text(&read)?)
    }

    /// The newest positions up to a batch, and the first plan that is not in them.
    fn stored_positions(&self, batch: BatchId) -> Result<(u64, Positions)> {
        let listed = self.writer.store.list(Folder::Positions)?.into_iter().rev();
        for object in listed.map(|listed| listed.object) {
            if !matches!(object, Object::Positions(found) if found <= batch) {
                continue;
            }
            let Some(found) = self.writer.store.read(&object)? else { continue };
            if let Some(read) = self.writer.read::<ReadPositions>(&object, &found)? {
                return Ok((read.batch.0 + 1, read.to_positions()));
            }
        }
        Ok((0, Positions::new()))
    }
}

/// A long upload that ends when the host does.
struct Interruptible<'l, R> {
    content: R,
    ledger: &'l Ledger,
}

impl<R: Read> Read for Interruptible<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ledger.is_stopping() {
            return Err(std::io::Error::other("the host stops"));
        }
        self.content.read(buffer)
    }
}
