//! [`verify`]: whether a checkpoint can be relied on: every object is read and checked, and all of it is restored for trial.

use super::catalogue::{self, Catalogue};
use super::deltas::{self, Step};
use super::fault::Fault;
use super::import;
use super::layout::Object;
use super::listing::Listing;
use super::object::{self, Epoch};
use super::restore::{self, Options, RestoreObserver, Restored, is_component};
use super::snapshot;
use super::store::CheckpointStore;
use crate::clock::Clock;
use crate::event::{BatchId, PartitionId};
use crate::plan::Plan;
use crate::state::partition_db;
use crate::state::restored::check_integrity;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::Path;

/// Deltas that are held at once.
const DELTAS_AT_ONCE: usize = 16;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// The rule.
    pub rule: String,
    /// The id of the history of batches.
    pub id: String,
    /// The newest batch that is committed.
    pub batch: Option<BatchId>,
    /// How long ago that was written.
    pub batch_age_ms: Option<i64>,
    /// How long ago the oldest of the newest snapshots of all partitions was written.
    pub snapshot_age_ms: Option<i64>,
    /// Objects that were checked.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was restored; none when that failed, and a fault says why.
    pub restored: Option<Restored>,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// Checks a checkpoint. Everything that is wrong with it is in the result; an error is a store that cannot be read, or a
/// checkpoint of which nobody knows whose it is. It is restored below `scratch`.
pub fn verify(
    store: &CheckpointStore,
    scratch: &Path,
    clock: &Clock,
    observer: &mut dyn RestoreObserver,
) -> Result<Verified> {
    let catalogue = Catalogue::read(store)?;
    let mut check =
        Check { store, catalogue: &catalogue, faults: catalogue.faults.clone(), bytes: 0, total: 0, observer };
    check.total = check.sizes().sum();
    check.history()?;
    check.deltas()?;
    check.snapshots()?;
    check.files()?;
    let restored = check.restore(scratch)?;
    check.forget_deleted()?;
    let mut faults = check.faults;
    Fault::sort(&mut faults);
    let listing = &catalogue.listing;
    let now = clock.now();
    let newest = catalogue.newest();
    let age = |batch: BatchId| Some(now.0 - listing.commits.get(&batch)?.modified.0);
    let partitions = (0..catalogue.metadata.identity.partitions).map(PartitionId);
    let snapshots = partitions.map(|partition| listing.snapshots_of(partition, BatchId(u64::MAX)).next());
    let snapshots: Option<Vec<i64>> = snapshots.map(|newest| Some(now.0 - newest?.1.modified.0)).collect();
    Ok(Verified {
        rule: catalogue.metadata.identity.rule.clone(),
        id: catalogue.metadata.identity.id.clone(),
        batch: newest,
        batch_age_ms: newest.and_then(age),
        snapshot_age_ms: snapshots.and_then(|ages| ages.into_iter().max()),
        objects: listing.objects().count() as u64,
        bytes: listing.objects().map(|(_, stored)| stored.bytes).sum(),
        restored,
        faults,
    })
}

struct Check<'c> {
    store: &'c CheckpointStore,
    catalogue: &'c Catalogue,
    faults: Vec<Fault>,
    bytes: u64,
    total: u64,
    observer: &'c mut dyn RestoreObserver,
}

impl Check<'_> {
    /// Plans and commits follow each other without gaps, and each commit has its plan.
    fn history(&mut self) -> Result<()> {
        let listing = &self.catalogue.listing;
        self.faults.extend(Fault::of_gaps(listing.offsets.keys().copied(), Object::Offsets));
        self.faults.extend(Fault::of_gaps(listing.commits.keys().copied(), Object::Commit));
        for batch in listing.commits.keys().filter(|batch| !listing.offsets.contains_key(batch)) {
            self.faults.push(Fault::missing(&Object::Offsets(*batch)));
        }
        let writers: BTreeSet<u64> = self.catalogue.commits.values().map(|commit| commit.epoch).collect();
        for epoch in writers.into_iter().filter(|epoch| !listing.epochs.contains_key(epoch)) {
            self.faults.push(Fault::missing(&Object::Epoch(epoch)));
        }
        catalogue::read_all::<u64, Epoch>(self.store, listing.epochs.keys(), Object::Epoch, &mut self.faults)?;
        Ok(())
    }

    /// Every delta that a commit names is there and is that one; those that no commit names yet are whole.
    fn deltas(&mut self) -> Result<()> {
        let named = self.catalogue.commits.iter().flat_map(|(batch, commit)| {
            let of = move |(partition, done): (u32, &object::PartitionCommit)| {
                Some(((PartitionId(partition), *batch), Some(done.delta?)))
            };
            (0..).zip(&commit.partitions).filter_map(of)
        });
        let mut wanted: std::collections::BTreeMap<(PartitionId, BatchId), Option<u64>> = named.collect();
        for (partition, batch) in self.catalogue.listing.deltas.keys() {
            if self.catalogue.commits.contains_key(batch) && !wanted.contains_key(&(*partition, *batch)) {
                let object = Object::Delta(*partition, *batch);
                self.faults.push(Fault::new(&object, "its commit says that the batch did nothing there"));
            }
            wanted.entry((*partition, *batch)).or_insert(None);
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        for wanted in wanted.chunks(DELTAS_AT_ONCE) {
            let objects: Vec<Object> =
                wanted.iter().map(|((partition, batch), _)| Object::Delta(*partition, *batch)).collect();
            for ((object, (_, checksum)), found) in objects.iter().zip(wanted).zip(self.store.read_all(&objects)?) {
                self.saw(found.as_ref().map_or(0, |bytes| bytes.len() as u64));
                let checksum = checksum.or_else(|| found.as_deref().and_then(object::checksum_of));
                if let Step::Fault(fault) = deltas::check(object, found, checksum.unwrap_or(0)) {
                    self.faults.push(fault);
                }
            }
        }
        Ok(())
    }

    /// Every snapshot is whole and has as many rows as its commit says; there is one to begin with, or the first plan.
    fn snapshots(&mut self) -> Result<()> {
        for &(partition, batch) in self.catalogue.listing.snapshots.keys() {
            let object = Object::Snapshot(partition, batch);
            let Some(local) = self.local(&object)? else { continue };
            let bytes = local.metadata()?.len();
            let counts = snapshot::check_stream(BufReader::new(&local), bytes).and_then(|()| {
                (&local).rewind()?;
                snapshot::read(BufReader::new(&local), |_| Ok(()), |_| Ok(()))
            });
            let rows = self.catalogue.commits.get(&batch).map(|commit| commit.partitions[partition.0 as usize].rows);
            match (counts, rows) {
                (Err(error), _) => self.faults.push(Fault::damaged(&object, &error)),
                (Ok(counts), Some(rows)) if counts.rows != rows => self
                    .faults
                    .push(Fault::new(&object, &format!("it has {} keys, and its commit says {rows}", counts.rows))),
                _ => {}
            }
        }
        Ok(())
    }

    /// Components and imported states.
    fn files(&mut self) -> Result<()> {
        let listing = &self.catalogue.listing;
        let named = self.catalogue.plans.values().flat_map(Plan::digests);
        let named = named.map(|digest| digest.trim_start_matches("sha256:").to_owned());
        let named: BTreeSet<String> = named.chain(listing.components.keys().cloned()).collect();
        for digest in named {
            let object = Object::Component(digest.clone());
            let found = self.store.read(&object)?;
            self.saw(found.as_ref().map_or(0, |bytes| bytes.len() as u64));
            match found {
                None => self.faults.push(Fault::missing(&object)),
                Some(bytes) if !is_component(&digest, &bytes) => self.faults.push(Fault::new(&object, "it is damaged")),
                Some(_) => {}
            }
        }
        for file in listing.imports.keys() {
            let object = Object::Import(file.clone());
            let Some(local) = self.local(&object)? else { continue };
            if let Err(error) = import::read(BufReader::new(local), std::io::sink()) {
                self.faults.push(Fault::damaged(&object, &error));
            }
        }
        Ok(())
    }

    /// Restores all of it, and lets SQLite look at every page.
    fn restore(&mut self, scratch: &Path) -> Result<Option<Restored>> {
        let folder = scratch.join("data");
        let restored = match restore::restore(self.store, &folder, Options::default(), self) {
            Ok(restored) => restored,
            Err(error) => {
                self.faults.push(Fault { object: "restoring".to_owned(), problem: format!("{error:#}") });
                return Ok(None);
            }
        };
        self.faults.extend(restored.faults.iter().cloned());
        let files = restored.partitions.iter().map(|done| partition_db::path_of(&folder, done.partition));
        for path in files.chain([folder.join("plan.db")]) {
            if let Err(error) = check_integrity(&path) {
                self.faults.push(Fault { object: "restoring".to_owned(), problem: format!("{error:#}") });
            }
        }
        Ok(Some(restored))
    }

    /// A host that runs deletes old objects. What was deleted while we looked is no fault.
    fn forget_deleted(&mut self) -> Result<()> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let Some(oldest) = Listing::read(self.store)?.commits.keys().next().copied() else { return Ok(()) };
        let is_deleted = |fault: &Fault| match Object::of_name(&fault.object) {
            Some(Object::Offsets(batch) | Object::Commit(batch) | Object::Delta(_, batch)) => batch < oldest,
            _ => false,
        };
        self.faults.retain(|fault| !is_deleted(fault));
        Ok(())
    }

    /// A copy of an object in a file without a name.
    fn local(&mut self, object: &Object) -> Result<Option<File>> {
        let mut local = tempfile::tempfile()?;
        let Some(bytes) = self.store.download(object, &mut local)? else {
            self.faults.push(Fault::missing(object));
            return Ok(None);
        };
        self.saw(bytes);
        local.rewind()?;
        Ok(Some(local))
    }

    fn sizes(&self) -> impl Iterator<Item = u64> {
        let listing = &self.catalogue.listing;
        let large = listing.deltas.values().chain(listing.snapshots.values());
        large.chain(listing.components.values()).chain(listing.imports.values()).map(|stored| stored.bytes)
    }

    fn saw(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.observer.read(self.bytes, self.total);
    }
}

impl RestoreObserver for Check<'_> {
    /// Restoring reads the objects once more.
    fn read(&mut self, bytes: u64, total: u64) {
        self.observer.read(self.bytes + bytes, self.total + total);
    }
}
