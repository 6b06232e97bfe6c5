//! [`Beginning`]: how a checkpoint begins for a rule that has run without one: with a snapshot of each partition, because what the
//! batches before did is not kept.

use super::layout::Object;
use super::object::{self, Delta, PartitionCommit};
use super::positions::ReadPositions;
use super::retention;
use super::snapshot::{Counts, SnapshotWriter};
use super::writer::{DeltaObject, Writer};
use crate::event::{BatchId, PartitionId, Positions};
use crate::state::reader::PartitionReader;
use crate::state::shipping::{PlanReader, ShippingReader};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek};
use std::path::Path;

/// What a checkpoint begins with.
pub(super) struct Beginning {
    /// The batch that all partitions stand at.
    pub batch: BatchId,
    delivered: Option<BatchId>,
    positions: ReadPositions,
    snapshots: Vec<Snapshot>,
}

/// A snapshot on its way, in a file without a name.
pub(super) struct Snapshot {
    /// The batch after which the rows are as they are here.
    pub batch: BatchId,
    pub counts: Counts,
    pub file: File,
}

impl Snapshot {
    /// Copies the rows and dead letters of a partition as they are now.
    pub fn take(folder: &Path, partition: PartitionId) -> Result<Self> {
        let attempt = || format!("failed to take a snapshot of partition {partition}");
        let take = || -> Result<Self> {
            let reader = PartitionReader::open(folder, partition)?;
            let batch = reader.committed().context("no batch was committed yet")?;
            // In the data folder: the one for temporary files may be small, or memory.
            let mut writer = SnapshotWriter::new(BufWriter::new(tempfile::tempfile_in(folder)?))?;
            reader.scan(|row| writer.row(row.as_delta_row()))?;
            reader.kept_letters(|kept| writer.dead_letter(&kept))?;
            let (output, counts) = writer.finish()?;
            let file = output.into_inner().map_err(|error| error.into_error())?;
            Ok(Snapshot { batch, counts, file })
        };
        take().with_context(attempt)
    }

    /// The bytes from the start.
    pub fn content(&self) -> Result<BufReader<File>> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        Ok(BufReader::new(file))
    }
}

impl Beginning {
    /// Takes the snapshots. No batch may be running.
    pub fn take(
        folder: &Path,
        partitions: u32,
        batch: BatchId,
        delivered: Option<BatchId>,
        positions: &Positions,
    ) -> Result<Self> {
        let take = |partition| -> Result<Snapshot> {
            let snapshot = Snapshot::take(folder, PartitionId(partition))?;
            ensure!(snapshot.batch == batch, "partition {partition} stands at batch {}, not {batch}", snapshot.batch);
            Ok(snapshot)
        };
        let snapshots = (0..partitions).map(take).collect::<Result<_>>()?;
        Ok(Beginning { batch, delivered, positions: ReadPositions::new(batch, positions), snapshots })
    }

    /// Writes it, and deletes what lay there of batches before. Returns the rows of each partition.
    pub fn write(&self, writer: &mut Writer, plans: &PlanReader, partitions: &[ShippingReader]) -> Result<Vec<u64>> {
        let rows: Vec<u64> = self.snapshots.iter().map(|snapshot| snapshot.counts.rows).collect();
        // Batches before it have outputs that may be lost with this machine as long as they are not delivered.
        let first = self.delivered.map_or(0, |delivered| delivered.0 + 1).min(self.batch.0);
        let batches = (first..=self.batch.0).map(BatchId);
        for batch in batches.clone() {
            let plan = plans.plan(batch)?.with_context(|| format!("the plan of batch {batch} is not kept"))?;
            writer.plan(&plan)?;
        }
        let mut commits = Vec::new();
        for batch in batches {
            commits.push((batch, self.outputs_of(batch, writer, partitions, &rows)?));
        }
        for (partition, snapshot) in (0..).map(PartitionId).zip(&self.snapshots) {
            writer.store.upload(&Object::Snapshot(partition, self.batch), snapshot.content()?)?;
        }
        writer.create_or_mend(&Object::Positions(self.batch), object::to_text(&self.positions)?)?;
        for (batch, partitions) in commits {
            writer.commit(batch, self.delivered, partitions)?;
        }
        // What was there is cut off from what comes: nobody could be led from it to a later batch.
        retention::delete_needless(&writer.store, 1, &|| false)?;
        Ok(rows)
    }

    /// Writes the outputs of a batch that are not known to be delivered.
    fn outputs_of(
        &self,
        batch: BatchId,
        writer: &Writer,
        partitions: &[ShippingReader],
        rows: &[u64],
    ) -> Result<Vec<PartitionCommit>> {
        let mut commits = Vec::new();
        for ((partition, reader), &rows) in (0..).map(PartitionId).zip(partitions).zip(rows) {
            let mut commit = PartitionCommit { rows, delta: None };
            let outputs = reader.read(batch)?.outputs;
            if outputs.outputs > 0 && self.delivered.is_none_or(|delivered| delivered < batch) {
                let delta = Delta { rows, outputs, ..Delta::default() };
                let bytes = delta.to_bytes()?;
                let mut objects = [DeltaObject { partition, batch, delta, bytes, checksum: None }];
                writer.deltas(&mut objects)?;
                commit.delta = objects[0].checksum;
            }
            commits.push(commit);
        }
        Ok(commits)
    }
}
