//! [`Writer`]: writes the objects of batches, and judges those that it finds in their places.
//!
//! An object that is there already is the same, because an answer was lost or the batch is run again; or it is damaged, and written
//! anew; or it is another host's, and then this one must stop.

use super::epochs;
use super::import;
use super::layout::Object;
use super::object::{self, Commit, Delta, Offsets, PartitionCommit};
use super::refusal::{Refusal, is_trouble_of_store};
use super::store::{CheckpointStore, Created};
use crate::clock::Clock;
use crate::event::{BatchId, InputId, PartitionId};
use crate::plan::Plan;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// Larger files go in parts, and are not compared.
const COMPARED_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Writes the objects of batches.
pub(super) struct Writer {
    pub store: Arc<CheckpointStore>,
    /// The data folder.
    pub folder: PathBuf,
    pub epoch: u64,
    pub clock: Clock,
    /// Components and imports that are there.
    known: HashSet<Object>,
}

/// A delta and how to write it.
pub(super) struct DeltaObject {
    pub partition: PartitionId,
    pub batch: BatchId,
    pub delta: Delta,
    pub bytes: Bytes,
    /// Its checksum as it lies in the checkpoint, once it does.
    pub checksum: Option<u64>,
}

impl Writer {
    pub fn new(store: Arc<CheckpointStore>, folder: PathBuf, epoch: u64, clock: Clock) -> Self {
        Writer { store, folder, epoch, clock, known: HashSet::new() }
    }

    /// Writes a plan, and before it what it names.
    pub fn plan(&mut self, plan: &Plan) -> Result<()> {
        self.what_it_names(plan)?;
        let object = Object::Offsets(plan.batch);
        let bytes = object::to_text(&Offsets { epoch: self.epoch, plan: plan.clone() })?;
        let Some(found) = self.create(&object, &bytes)? else { return Ok(()) };
        match self.read::<Offsets>(&object, &found)? {
            Some(found) if found.epoch > self.epoch => bail!(epochs::taken_over(&self.store, found.epoch)),
            Some(found) if found.plan == *plan => Ok(()),
            // A plan of a host that was replaced, which could not be adopted: nothing that is committed came from it.
            Some(found) if found.epoch < self.epoch => {
                warn!("{} is of epoch {}, which was taken over: it is replaced", object.name(), found.epoch);
                self.store.overwrite(&object, bytes)
            }
            Some(_) => self.other_history(&object),
            None => self.store.overwrite(&object, bytes),
        }
    }

    /// Writes the deltas of some batches that do not lie in the checkpoint yet. When some fail, the next attempt has fewer to write.
    pub fn deltas(&self, deltas: &mut [DeltaObject]) -> Result<()> {
        let mut missing: Vec<&mut DeltaObject> = deltas.iter_mut().filter(|delta| delta.checksum.is_none()).collect();
        let named = |delta: &&mut DeltaObject| (Object::Delta(delta.partition, delta.batch), delta.bytes.clone());
        let objects: Vec<(Object, Bytes)> = missing.iter().map(named).collect();
        let created = self.store.create_all(&objects);
        let mut failed = Ok(());
        for ((ours, (object, bytes)), created) in missing.iter_mut().zip(objects).zip(created) {
            let settled = created.and_then(|created| match created {
                Created::Present(found) if found != bytes => self.settle_delta(&object, ours, found),
                _ => Ok(bytes),
            });
            match settled {
                Ok(there) => ours.checksum = object::checksum_of(&there),
                // One that must not go on says more than a store that does not answer.
                Err(error) if failed.is_ok() || !is_trouble_of_store(&error) => failed = Err(error),
                Err(_) => {}
            }
        }
        failed
    }

    /// Writes a commit.
    pub fn commit(&self, batch: BatchId, delivered: Option<BatchId>, partitions: Vec<PartitionCommit>) -> Result<()> {
        let object = Object::Commit(batch);
        let commit = Commit { epoch: self.epoch, time: self.clock.now(), delivered, partitions };
        let bytes = object::to_text(&commit)?;
        let Some(found) = self.create(&object, &bytes)? else { return Ok(()) };
        match self.read::<Commit>(&object, &found)? {
            Some(found) if found.epoch > self.epoch => bail!(epochs::taken_over(&self.store, found.epoch)),
            Some(found) if found.partitions == commit.partitions => Ok(()),
            Some(_) => self.other_history(&object),
            None => self.store.overwrite(&object, bytes),
        }
    }

    /// Creates an object. Returns what was found in its place, when that is not the same.
    pub fn create(&self, object: &Object, bytes: &Bytes) -> Result<Option<Bytes>> {
        Ok(match self.store.create(object, bytes.clone())? {
            Created::Present(found) if found != *bytes => Some(found),
            _ => None,
        })
    }

    /// Creates an object that anybody would write the same way, or writes it anew.
    pub fn create_or_mend(&self, object: &Object, bytes: Bytes) -> Result<()> {
        if self.create(object, &bytes)?.is_some() {
            warn!("{} is damaged: it is written anew", object.name());
            self.store.overwrite(object, bytes)?;
        }
        Ok(())
    }

    /// Fails: what was found there was not written by this history of batches.
    pub fn other_history(&self, object: &Object) -> Result<()> {
        epochs::check(&self.store, self.epoch)?;
        bail!(Refusal(format!(
            "{} of the checkpoint {} is not what this rule has done: it holds another history. Use another URL with --checkpoint",
            object.name(),
            self.store.url()
        )))
    }

    /// Reads an object that was found; none when it is damaged, after saying so.
    pub fn read<T: DeserializeOwned>(&self, object: &Object, found: &Bytes) -> Result<Option<T>> {
        match object::of_text(&object.name(), found) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                ensure!(!object::is_of_other_version(found), Refusal(format!("{error:#}: use the host that wrote it")));
                warn!("{error:#}: it is written anew");
                Ok(None)
            }
        }
    }

    /// Another delta lies there. It may hold the same: other versions of the host may compress it in another way.
    fn settle_delta(&self, object: &Object, ours: &DeltaObject, found: Bytes) -> Result<Bytes> {
        if let Err(error) = object::check(&found) {
            warn!("{}: {error:#}: it is written anew", object.name());
            self.store.overwrite(object, ours.bytes.clone())?;
            return Ok(ours.bytes.clone());
        }
        if Delta::of_bytes(&object.name(), &found).is_ok_and(|found| found == ours.delta) {
            return Ok(found);
        }
        self.other_history(object)?;
        Ok(found)
    }

    /// The component and the imports that a plan names.
    fn what_it_names(&mut self, plan: &Plan) -> Result<()> {
        for digest in plan.digests() {
            let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
            let component = Object::Component(digest.to_owned());
            if !self.known.contains(&component) {
                let path = self.folder.join("components").join(format!("{digest}.wasm"));
                let bytes = fs::read(&path).with_context(|| cannot_read(&path))?;
                self.create_or_mend(&component, bytes.into())?;
                self.known.insert(component);
            }
        }
        for range in plan.ranges.iter().filter(|range| range.input == InputId::IMPORTS) {
            let object = Object::Import(range.file.clone());
            if !self.known.contains(&object) {
                self.import(&object, &self.folder.join("imports").join(&range.file))?;
                self.known.insert(object);
            }
        }
        Ok(())
    }

    fn import(&self, object: &Object, path: &Path) -> Result<()> {
        let attempt = || cannot_read(path);
        let mut compressed = tempfile::tempfile_in(&self.folder).with_context(attempt)?;
        import::write(BufReader::new(File::open(path).with_context(attempt)?), BufWriter::new(&compressed))
            .with_context(attempt)?;
        let length = compressed.metadata()?.len();
        compressed.rewind()?;
        if length > COMPARED_BYTES_MAX {
            return self.store.upload(object, compressed);
        }
        let mut bytes = Vec::new();
        compressed.read_to_end(&mut bytes)?;
        self.create_or_mend(object, bytes.into())
    }
}

fn cannot_read(path: &Path) -> String {
    format!("failed to read {}, which a plan names", path.display())
}
