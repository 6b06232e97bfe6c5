//! The switch: files that are whole take the place of those of a data folder, all or none.
//!
//! New files are made in a folder `split`, which means nothing and is thrown away. Renaming it to `split-ready` is the decision:
//! from then on the new files are the rule's, and whoever opens the data folder first moves them. Every step can be done
//! again, and the plan log comes last, so that a crash between two of them leaves what the next one finishes.

use super::partition_db;
use crate::event::PartitionId;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const UNFINISHED: &str = "split";
const READY: &str = "split-ready";
/// Says how many partitions there will be, so that the files of those that will not are deleted.
const COUNT: &str = "partitions";
pub(super) const PLAN_LOG: &str = "plan.db";

/// Whether a decision waits to be carried out.
pub(super) fn is_decided(folder: &Path) -> bool {
    folder.join(READY).exists()
}

/// An empty folder for new files. What an earlier attempt left there is deleted.
pub(super) fn begin(folder: &Path) -> Result<PathBuf> {
    let unfinished = folder.join(UNFINISHED);
    remove_folder(&unfinished)?;
    fs::create_dir(&unfinished).with_context(|| format!("failed to make {}", unfinished.display()))?;
    Ok(unfinished)
}

/// Decides that the new files, which are synced, are the rule's.
pub(super) fn decide(folder: &Path, partitions: u32) -> Result<()> {
    let unfinished = folder.join(UNFINISHED);
    let count = unfinished.join(COUNT);
    let write = || -> Result<()> {
        fs::write(&count, partitions.to_string())?;
        File::open(&count)?.sync_all()?;
        sync(&unfinished)?;
        fs::rename(&unfinished, folder.join(READY))?;
        sync(folder)
    };
    write().with_context(|| format!("failed to rename {}", unfinished.display()))
}

/// Throws away what was not decided, and carries out what was.
pub(super) fn carry_out(folder: &Path) -> Result<()> {
    remove_folder(&folder.join(UNFINISHED))?;
    let ready = folder.join(READY);
    if !ready.exists() {
        return Ok(());
    }
    move_all(folder, &ready).with_context(|| format!("failed to move the files of {}", ready.display()))
}

fn move_all(folder: &Path, ready: &Path) -> Result<()> {
    let names = databases(ready)?;
    // A log that belongs to an old file would be replayed over the new one.
    for name in &names {
        remove_logs(&folder.join(name))?;
    }
    sync(folder)?;
    for name in names.iter().filter(|name| *name != PLAN_LOG) {
        fs::rename(ready.join(name), folder.join(name))?;
    }
    sync(folder)?;
    if let Ok(count) = fs::read_to_string(ready.join(COUNT)) {
        remove_partitions_from(folder, count.parse().context("the number of partitions is no number")?)?;
    }
    if names.iter().any(|name| name == PLAN_LOG) {
        fs::rename(ready.join(PLAN_LOG), folder.join(PLAN_LOG))?;
        sync(folder)?;
    }
    remove_folder(ready)?;
    sync(folder)
}

/// Deletes the files of the partitions that there are no longer.
fn remove_partitions_from(folder: &Path, partitions: u32) -> Result<()> {
    let kept: Vec<PathBuf> = (0..partitions).map(|id| partition_db::path_of(folder, PartitionId(id))).collect();
    for name in databases(folder)? {
        let path = folder.join(&name);
        if name.starts_with("partition-") && !kept.contains(&path) {
            remove_logs(&path)?;
            fs::remove_file(&path)?;
        }
    }
    sync(folder)
}

/// The names of the SQLite files in a folder.
fn databases(folder: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.filter(|name| name.as_ref().is_ok_and(|name| name.ends_with(".db")) || name.is_err()).collect()
}

fn remove_logs(database: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        absent_is_fine(fs::remove_file(path))?;
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> Result<()> {
    absent_is_fine(fs::remove_dir_all(folder)).with_context(|| format!("failed to delete {}", folder.display()))
}

fn absent_is_fine(done: std::io::Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn sync(folder: &Path) -> Result<()> {
    Ok(File::open(folder)?.sync_all()?)
}
