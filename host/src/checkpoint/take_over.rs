//! [`take_over`]: makes a data folder go on in place of the host that wrote the checkpoint.

use super::epochs;
use super::layout::{Folder, Object};
use super::object::{self, Metadata};
use super::restore::{self, Options};
use super::store::CheckpointStore;
use crate::clock::Clock;
use crate::folder_lock::FolderLock;
use crate::state::PlanLog;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Begins the next epoch, so that the host before delivers nothing more after its checkpoint, and restores the data folder when there
/// is none. When the folder is opened next, the fence is written.
pub fn take_over(store: &CheckpointStore, folder: &Path, clock: &Clock) -> Result<()> {
    let metadata = store.read(&Object::Metadata)?.with_context(|| {
        format!("there is nothing to take over at {}: leave out --take-over to begin there", store.url())
    })?;
    let metadata: Metadata = object::of_text(&Object::Metadata.name(), &metadata)?;
    let is_restored = PlanLog::identity(folder)?.is_some();
    let _lock = is_restored.then(|| FolderLock::take(folder)).transpose()?;
    if is_restored {
        check_restored(store, folder, &metadata)?;
    }
    let seized = epochs::seize(store, folder, clock)?;
    if !is_restored {
        restore::restore(store, folder, Options::default(), &mut ())?;
    }
    seized.keep(&PlanLog::open(folder, &metadata.identity)?)
}

/// A folder that was restored before must have everything that the checkpoint has.
fn check_restored(store: &CheckpointStore, folder: &Path, metadata: &Metadata) -> Result<()> {
    let plan_log = PlanLog::open(folder, &metadata.identity)?;
    ensure!(
        PlanLog::identity(folder)?.is_some_and(|found| found.id == metadata.identity.id),
        "the data folder {} is not one of the checkpoint {}: name an empty one with --data",
        folder.display(),
        store.url()
    );
    let last = plan_log.last()?.map(|plan| plan.batch);
    let committed = store.list(Folder::Commits)?.into_iter().rev().find_map(|listed| match listed.object {
        Object::Commit(batch) => Some(batch),
        _ => None,
    });
    ensure!(
        last >= committed,
        "the checkpoint {} has gone on since the data folder {} was restored: name an empty one with --data",
        store.url(),
        folder.display()
    );
    Ok(())
}
