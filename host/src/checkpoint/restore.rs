//! [`restore`]: makes a data folder from a checkpoint.
//!
//! Partitions are restored independently, each from its newest snapshot that is whole and the deltas after it up to the last one
//! that is. They may end at different batches: the plans after them are restored as well, and the next run gives each partition
//! what it lacks from the source. So damage costs time, and no state.

use super::catalogue::Catalogue;
use super::fault::Fault;
use super::import;
use super::layout::Object;
use super::partition_restore::PartitionRestore;
use super::restored_plans::RestoredPlans;
use super::store::CheckpointStore;
use crate::clock::Clock;
use crate::event::{BatchId, InputId, PartitionId};
use crate::new_folder::NewFolder;
use crate::plan::{Identity, Plan};
use crate::source::stdin;
use crate::state::PlanLog;
use anyhow::{Context, Result, anyhow, ensure};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

pub use super::partition_restore::PartitionRestored;

/// More would wait for each other: one thread decompresses and writes some hundred MB a second.
const PARTITIONS_AT_ONCE: usize = 2;

/// What is to be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The state after this batch; none for the newest that is committed.
    pub batch: Option<BatchId>,
    /// Begin a new history there: batches after it are forgotten, and the folder gets an id of its own.
    pub fork: bool,
    /// Partitions that are made at the same time.
    pub partitions_at_once: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { batch: None, fork: false, partitions_at_once: PARTITIONS_AT_ONCE }
    }
}

/// Sees how far restoring has come.
pub trait RestoreObserver {
    /// So many bytes of so many were read. Damage makes it more.
    fn read(&mut self, bytes: u64, total: u64);
}

impl RestoreObserver for () {
    fn read(&mut self, _: u64, _: u64) {}
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// The rule.
    pub rule: String,
    /// The id of the folder.
    pub id: String,
    /// The newest batch that the partitions were to be restored to; none when nothing was committed.
    pub batch: Option<BatchId>,
    /// Outputs up to this batch are known to be delivered.
    pub delivered: Option<BatchId>,
    /// The newest epoch of the checkpoint.
    pub epoch: Option<u64>,
    /// The partitions.
    pub partitions: Vec<PartitionRestored>,
    /// The first and the last batch that the next run runs again, in the partitions that lack it.
    pub to_run_again: Option<(BatchId, BatchId)>,
    /// Plans that could not be kept: the plan before them is damaged, or they read standard input, which is gone.
    pub plans_left_out: Vec<BatchId>,
    /// Objects that are damaged or missing.
    pub faults: Vec<Fault>,
    /// Bytes that were read.
    pub bytes: u64,
}

/// Makes a data folder, which appears when it is whole, at a place where there is nothing.
pub fn restore(
    store: &CheckpointStore,
    folder: &Path,
    options: Options,
    observer: &mut dyn RestoreObserver,
) -> Result<Restored> {
    let made = NewFolder::begin(folder)?;
    let catalogue = Catalogue::read(store)?;
    let newest = catalogue.newest();
    if let Some(batch) = options.batch {
        ensure!(
            newest.is_some_and(|newest| batch <= newest),
            "batch {batch} is not in the checkpoint{}",
            newest.map_or_else(String::new, |newest| format!(": the newest is {newest}"))
        );
    }
    let to = options.batch.or(newest);
    let delivered = match options.fork {
        // What came after it has not happened.
        true => catalogue.delivered().min(to),
        false => catalogue.delivered(),
    };
    let mut faults = catalogue.faults.clone();
    let (partitions, bytes) =
        restore_partitions(store, &catalogue, made.path(), &options, (to, delivered), &mut faults, observer)?;
    let plans = RestoredPlans::choose(&catalogue, &partitions, delivered, options.fork.then_some(to))?;
    faults.extend(plans.faults.iter().cloned());

    let identity = match options.fork {
        true => Identity { id: Identity::new_id(&Clock::System), ..catalogue.metadata.identity.clone() },
        false => catalogue.metadata.identity.clone(),
    };
    let lowest = partitions.iter().map(|partition| partition.batch.map_or(0, |batch| batch.0 + 1)).min().unwrap_or(0);
    let again = || plans.plans.iter().filter(|plan| plan.batch.0 >= lowest);
    // What the last plan drains runs on in the batches after it.
    let digests = again().chain(plans.plans.last()).flat_map(Plan::digests).map(str::to_owned).collect();
    restore_components(store, made.path(), digests, &mut faults)?;
    restore_imports(store, &catalogue, made.path(), &mut faults)?;
    if let Some(number) = plans.spool {
        stdin::begin_after(made.path(), number)?;
    }
    // Last: a folder without it is no data folder.
    let description = &catalogue.metadata.description;
    PlanLog::restore(made.path(), &identity, description, &plans.plans, &plans.positions, delivered)?;
    made.finish()?;

    Fault::sort(&mut faults);
    Ok(Restored {
        rule: identity.rule,
        id: identity.id,
        batch: to,
        delivered,
        epoch: catalogue.listing.epochs.keys().next_back().copied(),
        partitions,
        to_run_again: again().next().zip(again().next_back()).map(|(first, last)| (first.batch, last.batch)),
        plans_left_out: plans.left_out,
        faults,
        bytes,
    })
}

/// Restores all partitions, several at a time. `to` and `delivered` are where.
fn restore_partitions(
    store: &CheckpointStore,
    catalogue: &Catalogue,
    folder: &Path,
    options: &Options,
    (to, delivered): (Option<BatchId>, Option<BatchId>),
    faults: &mut Vec<Fault>,
    observer: &mut dyn RestoreObserver,
) -> Result<(Vec<PartitionRestored>, u64)> {
    let partitions = catalogue.metadata.identity.partitions;
    let next = AtomicU32::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut bytes = 0;
    let results = std::thread::scope(|scope| {
        let (next, mut threads) = (&next, Vec::new());
        for _ in 0..options.partitions_at_once.clamp(1, partitions as usize) {
            let sender = sender.clone();
            threads.push(scope.spawn(move || {
                // Nobody listens any more when the observer has failed.
                let read = move |bytes: u64| {
                    let _ = sender.send(bytes);
                };
                let work = PartitionRestore { store, catalogue, folder, to, delivered, read: &read };
                restore_some(&work, next, partitions)
            }));
        }
        drop(sender);
        let read = |_: u64| {};
        let work = PartitionRestore { store, catalogue, folder, to, delivered, read: &read };
        let total = (0..partitions).map(|partition| work.bytes_of(PartitionId(partition))).sum::<u64>();
        observer.read(0, total);
        for read in receiver {
            bytes += read;
            observer.read(bytes, total.max(bytes));
        }
        let joined =
            threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("restoring a partition panicked")));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let mut restored = Vec::new();
    for result in results {
        let (partitions, found) = result?;
        restored.extend(partitions);
        faults.extend(found);
    }
    restored.sort_by_key(|partition| partition.partition);
    Ok((restored, bytes))
}

/// The partitions that one thread has restored, and what it found damaged or missing.
type Share = (Vec<PartitionRestored>, Vec<Fault>);

/// Restores partitions until none is left.
fn restore_some(work: &PartitionRestore<'_>, next: &AtomicU32, partitions: u32) -> Result<Share> {
    let (mut restored, mut faults) = (Vec::new(), Vec::new());
    loop {
        let partition = next.fetch_add(1, Ordering::Relaxed);
        if partition >= partitions {
            return Ok((restored, faults));
        }
        let done = work
            .restore(PartitionId(partition), &mut faults)
            .with_context(|| format!("failed to restore partition {partition}"));
        match done {
            Ok(done) => restored.push(done),
            Err(error) => {
                // The others need not begin another one.
                next.store(partitions, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
}

/// Writes the components that batches will be run again with.
fn restore_components(
    store: &CheckpointStore,
    folder: &Path,
    digests: BTreeSet<String>,
    faults: &mut Vec<Fault>,
) -> Result<()> {
    for digest in digests {
        let name = digest.strip_prefix("sha256:").unwrap_or(&digest);
        let object = Object::Component(name.to_owned());
        match store.read(&object)? {
            None => faults.push(Fault::missing(&object)),
            Some(bytes) if !is_component(name, &bytes) => faults.push(Fault::new(&object, "it is damaged")),
            Some(bytes) => {
                let components = folder.join("components");
                fs::create_dir_all(&components)?;
                let mut file = File::create(components.join(format!("{name}.wasm")))?;
                file.write_all(&bytes)?;
                file.sync_all()?;
            }
        }
    }
    Ok(())
}

/// Whether these bytes are those that the name was made from.
pub(super) fn is_component(name: &str, bytes: &[u8]) -> bool {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>() == name
}

/// Writes the files of imported states. One that is damaged is left out: it matters only to a batch that has to be run again.
fn restore_imports(
    store: &CheckpointStore,
    catalogue: &Catalogue,
    folder: &Path,
    faults: &mut Vec<Fault>,
) -> Result<()> {
    let named = |plan: &Plan| {
        let imports = plan.ranges.iter().filter(|range| range.input == InputId::IMPORTS);
        imports.map(|range| range.file.clone()).collect::<Vec<_>>()
    };
    let named: BTreeSet<String> = catalogue.plans.values().flat_map(named).collect();
    let imports = folder.join("imports");
    for file in named.iter().chain(catalogue.listing.imports.keys()).collect::<BTreeSet<_>>() {
        let object = Object::Import(file.clone());
        if !catalogue.listing.imports.contains_key(file) {
            faults.push(Fault::missing(&object));
            continue;
        }
        fs::create_dir_all(&imports)?;
        let path = imports.join(file);
        if let Some(fault) = restore_import(store, &object, &path)? {
            faults.push(fault);
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn restore_import(store: &CheckpointStore, object: &Object, path: &Path) -> Result<Option<Fault>> {
    let mut local = tempfile::tempfile()?;
    let mut file = BufWriter::new(File::create(path)?);
    let Some(_) = store.download(object, &mut local)? else { return Ok(Some(Fault::missing(object))) };
    local.rewind()?;
    if let Err(error) = import::read(BufReader::new(local), &mut file) {
        return Ok(Some(Fault::damaged(object, &error)));
    }
    file.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    Ok(None)
}
