//! The fence: a plan without events that a host which takes a checkpoint over writes in the place where the host before would write
//! its next one. Whoever of the two is slower finds a plan there: the new host adopts it, the old one stops.

use super::epochs;
use super::import;
use super::layout::{Folder, Object};
use super::object::{self, Offsets};
use super::store::{CheckpointStore, Created};
use crate::event::{BatchId, InputId};
use crate::plan::Plan;
use crate::source::stdin::spool_number;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::{BufReader, Seek};
use std::path::Path;
use tempfile::NamedTempFile;
use tracing::warn;

/// Writes the fence. Returns the plan that was faster, after what it names was fetched.
pub(super) fn write(store: &CheckpointStore, epoch: u64, folder: &Path, fence: &Plan) -> Result<Option<Plan>> {
    let object = Object::Offsets(fence.batch);
    let bytes = object::to_text(&Offsets { epoch, plan: fence.clone() })?;
    let found = match store.create(&object, bytes.clone())? {
        Created::Written => return Ok(None),
        Created::Present(found) => found,
    };
    let why = match object::of_text::<Offsets>(&object.name(), &found) {
        Ok(found) if found.epoch > epoch => bail!(epochs::taken_over(store, found.epoch)),
        // A fence of ours that was not written down before a crash: it is as good as a new one.
        Ok(found) if found.plan.ranges.iter().all(|range| !is_spool(&range.file)) => {
            fetch(store, folder, &found.plan)?;
            return Ok(Some(found.plan));
        }
        Ok(_) => "it read standard input, which is gone".to_owned(),
        Err(error) => {
            ensure!(!object::is_of_other_version(&found), "{error:#}: use the host that wrote it");
            format!("{error:#}")
        }
    };
    warn!("{} cannot be adopted, and what it read is lost: {why}", object.name());
    forget(store, fence.batch)?;
    store.overwrite(&object, bytes)?;
    Ok(None)
}

/// Whether this is a copy of standard input, which no other host has.
fn is_spool(file: &str) -> bool {
    spool_number(file).is_some()
}

/// Deletes what partitions did in this batch and after it: it is not committed, and never will be.
fn forget(store: &CheckpointStore, from: BatchId) -> Result<()> {
    let listed = store.list(Folder::All)?.into_iter().map(|listed| listed.object);
    let is_after = |object: &Object| match object {
        Object::Delta(_, batch) => *batch >= from,
        Object::Offsets(batch) => *batch > from,
        _ => false,
    };
    store.delete(&listed.filter(is_after).collect::<Vec<_>>())
}

/// Brings what a plan names into the data folder.
fn fetch(store: &CheckpointStore, folder: &Path, plan: &Plan) -> Result<()> {
    for digest in plan.digests() {
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest).to_owned();
        let path = folder.join("components").join(format!("{digest}.wasm"));
        fetch_file(store, &Object::Component(digest), &path, |mut object, file| {
            std::io::copy(&mut object, file)?;
            Ok(())
        })?;
    }
    for range in plan.ranges.iter().filter(|range| range.input == InputId::IMPORTS) {
        let path = folder.join("imports").join(&range.file);
        fetch_file(store, &Object::Import(range.file.clone()), &path, |object, file| import::read(object, file))?;
    }
    Ok(())
}

/// Fetches an object that becomes a file, which appears whole.
fn fetch_file(
    store: &CheckpointStore,
    object: &Object,
    path: &Path,
    read: impl FnOnce(BufReader<File>, &mut NamedTempFile) -> Result<()>,
) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let fetch = || -> Result<()> {
        let folder = path.parent().context("a file lies in a folder")?;
        fs::create_dir_all(folder)?;
        let mut local = tempfile::tempfile_in(folder)?;
        store.download(object, &mut local)?.context("it is missing, and a plan names it")?;
        local.rewind()?;
        let mut file = NamedTempFile::new_in(folder)?;
        read(BufReader::new(local), &mut file)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(File::open(folder)?.sync_all()?)
    };
    fetch().with_context(|| format!("failed to fetch {}", object.name()))
}
