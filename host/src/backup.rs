//! [`backup`]: a copy of a data folder, also while a host runs. The copy is what the folder would be after a crash at that moment.

use crate::event::BatchId;
use crate::new_folder::NewFolder;
use crate::plan::Identity;
use crate::state::PlanLog;
use crate::state::backup::FolderSnapshot;
use crate::state::restored::check_integrity;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::{self, File};
use std::path::Path;

/// The folders with files that plans name. Files in them are only ever added, or grow at their end, before the plan that
/// names them: copied after the plan log, they have what it needs.
const FOLDERS: [&str; 3] = ["components", "imports", "stdin"];

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// The rule.
    pub rule: String,
    /// The last committed batch of each partition.
    pub committed: Vec<Option<BatchId>>,
    /// The bytes of state files and plan log.
    pub state_bytes: u64,
    /// Files beside them.
    pub other_files: u64,
}

/// Copies a data folder to a place where there is nothing. `each` is called with the bytes that were copied and with all.
pub fn backup(from: &Path, to: &Path, each: impl FnMut(u64, u64)) -> Result<Copied> {
    let identity: Identity =
        PlanLog::identity(from)?.with_context(|| format!("{} is not the data folder of a rule", from.display()))?;
    let copy = NewFolder::begin(to)?;
    let snapshot = FolderSnapshot::open(from, identity.partitions)?;
    let state_bytes = snapshot.copy(copy.path(), each)?;
    let committed = snapshot.committed().to_vec();
    drop(snapshot);
    for entry in fs::read_dir(copy.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "db") {
            check_integrity(&path)?;
        }
    }
    let mut other_files = 0;
    for folder in FOLDERS {
        other_files += copy_files(&from.join(folder), &copy.path().join(folder))?;
    }
    copy.finish()?;
    Ok(Copied { rule: identity.rule, committed, state_bytes, other_files })
}

/// Copies the files of a folder, if there is one, without those that are unfinished.
fn copy_files(from: &Path, to: &Path) -> Result<u64> {
    if !from.is_dir() {
        return Ok(0);
    }
    let attempt = || format!("failed to copy {}", from.display());
    fs::create_dir(to).with_context(attempt)?;
    let mut files = 0;
    for entry in fs::read_dir(from).with_context(attempt)? {
        let entry = entry.with_context(attempt)?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') || !entry.path().is_file() {
            continue;
        }
        let copy = to.join(name);
        fs::copy(entry.path(), &copy).and_then(|_| File::open(&copy)?.sync_all()).with_context(attempt)?;
        files += 1;
    }
    Ok(files)
}
