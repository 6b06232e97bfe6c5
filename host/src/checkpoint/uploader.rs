//! [`Uploader`]: the thread that brings plans and batches into the checkpoint, in their order.
//!
//! What it ships it reads from the data folder, so that a store that is slow or away costs no memory, and a restart goes on where the
//! store is. A batch's objects appear in the order plan, deltas, commit.

use super::backoff::Backoff;
use super::epochs;
use super::ledger::{Ledger, Reached, Task};
use super::object::{Delta, PartitionCommit};
use super::refusal::is_trouble_of_store;
use super::writer::{DeltaObject, Writer};
use crate::event::{BatchId, PartitionId};
use crate::state::shipping::{PlanReader, ShippingReader};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// Batches whose deltas are written together when there are many: each waits for an answer of the store.
const BATCHES_AT_ONCE: usize = 16;
/// No further batch joins once their deltas have so many bytes.
const BYTES_AT_ONCE: usize = 8 * 1024 * 1024;
/// A host that has nothing to write looks this often whether it was replaced.
const IDLE: Duration = Duration::from_secs(30);

/// Brings plans and batches into the checkpoint.
pub(super) struct Uploader {
    pub ledger: Arc<Ledger>,
    pub writer: Writer,
    pub plans: PlanReader,
    pub partitions: Vec<ShippingReader>,
    /// The next plan and the next batch to be shipped.
    pub next_plan: u64,
    pub next: u64,
    /// The rows of each partition after the last batch that was shipped.
    pub rows: Vec<u64>,
    /// What is being shipped, kept from one attempt to the next.
    pub cargo: Option<Cargo>,
}

/// Batches that are shipped together.
pub(super) struct Cargo {
    shipments: Vec<Shipment>,
    deltas: Vec<DeltaObject>,
}

/// A batch that is about to be shipped.
struct Shipment {
    batch: BatchId,
    partitions: Vec<PartitionCommit>,
}

impl Uploader {
    /// Ships until it is stopped, or must not go on.
    pub fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let mut task = self.ledger.next_task(self.next_plan, self.next, IDLE);
            if matches!(task, Task::Stop) {
                return;
            }
            let mut come = self.come();
            while let Err(error) = self.attempt(&task) {
                if !is_trouble_of_store(&error) {
                    self.ledger.fail(&error);
                    return;
                }
                if std::mem::replace(&mut come, self.come()) != come {
                    backoff.came_further();
                }
                let (wait, is_first) = backoff.failed();
                if is_first {
                    warn!("{error:#}: the checkpoint falls behind until this works again");
                }
                self.ledger.set_trouble(true);
                self.ledger.pause(wait, || false);
                if self.ledger.is_stopping() {
                    return;
                }
                if matches!(task, Task::Ship(_)) {
                    task = Task::Ship(self.ledger.reached());
                }
            }
            self.ledger.set_trouble(false);
            if let Some(away) = backoff.worked() {
                info!("the checkpoint {} works again after {} s", self.writer.store.url(), away.as_secs());
            }
        }
    }

    /// How far it has come: plans, batches, and deltas of the next ones.
    fn come(&self) -> (u64, u64, usize) {
        let deltas = self.cargo.iter().flat_map(|cargo| &cargo.deltas);
        (self.next_plan, self.next, deltas.filter(|delta| delta.checksum.is_some()).count())
    }

    fn attempt(&mut self, task: &Task) -> Result<()> {
        match task {
            Task::Begin(beginning) => {
                self.rows = beginning.write(&mut self.writer, &self.plans, &self.partitions)?;
                self.next = beginning.batch.0 + 1;
                self.next_plan = self.next;
                self.ledger.shipped(Some(beginning.batch));
                self.ledger.has_begun();
                Ok(())
            }
            Task::Ship(reached) => self.ship(*reached),
            Task::Idle => epochs::check(&self.writer.store, self.writer.epoch),
            Task::Stop => Ok(()),
        }
    }

    fn ship(&mut self, reached: Reached) -> Result<()> {
        let end = |mark: Option<BatchId>| mark.map_or(0, |mark| mark.0 + 1);
        while self.next_plan < end(reached.planned).max(end(reached.committed)) && !self.ledger.is_stopping() {
            let batch = BatchId(self.next_plan);
            let plan = self.plans.plan(batch)?;
            self.writer.plan(&plan.with_context(|| format!("the plan of batch {batch} is missing"))?)?;
            self.next_plan += 1;
        }
        while self.next < end(reached.committed).min(self.next_plan) && !self.ledger.is_stopping() {
            self.ship_some(end(reached.committed).min(self.next_plan), reached.delivered)?;
        }
        Ok(())
    }

    /// Ships some batches of those before `end`.
    fn ship_some(&mut self, end: u64, delivered: Option<BatchId>) -> Result<()> {
        let mut cargo = match self.cargo.take() {
            Some(cargo) => cargo,
            None => self.load(end)?,
        };
        if let Err(error) = self.writer.deltas(&mut cargo.deltas) {
            self.cargo = Some(cargo);
            return Err(error);
        }
        for delta in cargo.deltas {
            let place = (delta.batch.0 - self.next) as usize;
            cargo.shipments[place].partitions[delta.partition.0 as usize].delta = delta.checksum;
        }
        for Shipment { batch, partitions } in cargo.shipments {
            let rows = partitions.iter().map(|partition| partition.rows).collect();
            self.writer.commit(batch, delivered.min(Some(batch)), partitions)?;
            self.rows = rows;
            self.next = batch.0 + 1;
            self.ledger.shipped(Some(batch));
        }
        Ok(())
    }

    /// Reads some batches of those before `end`.
    fn load(&self, end: u64) -> Result<Cargo> {
        let mut cargo = Cargo { shipments: Vec::new(), deltas: Vec::new() };
        let mut rows = self.rows.clone();
        for batch in (self.next..end).map(BatchId).take(BATCHES_AT_ONCE) {
            cargo.shipments.push(self.read(batch, &mut rows, &mut cargo.deltas)?);
            if cargo.deltas.iter().map(|delta| delta.bytes.len()).sum::<usize>() > BYTES_AT_ONCE {
                break;
            }
        }
        Ok(cargo)
    }

    /// Reads what a batch did. `rows` are those before it, and after it when this returns.
    fn read(&self, batch: BatchId, rows: &mut [u64], deltas: &mut Vec<DeltaObject>) -> Result<Shipment> {
        let mut commits = Vec::new();
        for ((partition, reader), rows) in (0..).map(PartitionId).zip(&self.partitions).zip(rows) {
            let content = reader.read(batch).with_context(|| format!("failed to read batch {batch} of {partition}"))?;
            *rows = content.rows.unwrap_or(*rows);
            commits.push(PartitionCommit { rows: *rows, delta: None });
            let delta = Delta {
                changes: content.changes,
                rows: *rows,
                outputs: content.outputs,
                dead_letters: content.dead_letters,
                re_driven: content.re_driven,
            };
            if !delta.is_empty() {
                let bytes = delta.to_bytes()?;
                deltas.push(DeltaObject { partition, batch, delta, bytes, checksum: None });
            }
        }
        Ok(Shipment { batch, partitions: commits })
    }
}
