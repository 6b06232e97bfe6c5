//! [`NewFolder`]: a folder that appears whole. It is made under another name beside its place, and renamed when it is done; what a
//! crash leaves there is thrown away by the next attempt.

use crate::folder_lock::FolderLock;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A folder that is being made.
pub struct NewFolder {
    place: PathBuf,
    parent: PathBuf,
    unfinished: PathBuf,
    /// So that a second attempt at the same time does not throw this one away.
    lock: Option<FolderLock>,
}

impl NewFolder {
    /// Begins a folder at a place where there is none, or an empty one.
    pub fn begin(place: &Path) -> Result<Self> {
        check_empty(place)?;
        let name = place.file_name().with_context(|| format!("{} cannot be the name of a folder", place.display()))?;
        let parent = match place.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        check_renamed(place, &parent)?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".unfinished");
        let unfinished = parent.join(hidden);
        fs::create_dir_all(&unfinished).with_context(|| format!("failed to make {}", unfinished.display()))?;
        let lock = FolderLock::take(&unfinished)?;
        empty(&unfinished).with_context(|| format!("failed to throw away what is in {}", unfinished.display()))?;
        Ok(NewFolder { place: place.to_owned(), parent, unfinished, lock: Some(lock) })
    }

    /// Where its files are made.
    pub fn path(&self) -> &Path {
        &self.unfinished
    }

    /// Puts the folder, whose files are synced, in its place.
    pub fn finish(mut self) -> Result<()> {
        let attempt = || format!("failed to put the finished folder in its place, {}", self.place.display());
        let mut folders = vec![self.unfinished.clone()];
        while let Some(folder) = folders.pop() {
            sync(&folder)?;
            for entry in fs::read_dir(&folder).with_context(attempt)? {
                let path = entry.with_context(attempt)?.path();
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        // An empty folder is replaced, and one that has got a file meanwhile is not.
        fs::rename(&self.unfinished, &self.place).with_context(attempt)?;
        self.lock = None;
        sync(&self.parent)
    }
}

impl Drop for NewFolder {
    /// Throws away what was not finished. Nothing is to be done about a failure: the next attempt throws it away.
    fn drop(&mut self) {
        if self.lock.take().is_some() {
            let _ = fs::remove_dir_all(&self.unfinished);
        }
    }
}

/// Refuses a place where something is.
pub fn check_empty(place: &Path) -> Result<()> {
    match fs::read_dir(place) {
        Ok(mut entries) => {
            ensure!(entries.next().is_none(), "{} is not empty: name a folder that is not there yet", place.display())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            bail!("{} is a file: name a folder that is not there yet", place.display())
        }
        Err(error) => return Err(error).with_context(|| format!("failed to look into {}", place.display())),
    }
    Ok(())
}

/// Refuses a place that nothing can be renamed to, before hours of work are put into it.
fn check_renamed(place: &Path, parent: &Path) -> Result<()> {
    if let (Ok(place_found), Ok(parent_found)) = (fs::metadata(place), fs::metadata(parent)) {
        ensure!(
            place_found.dev() == parent_found.dev(),
            "another file system is mounted at {}: name a folder that is not there yet below it",
            place.display()
        );
    }
    Ok(())
}

fn empty(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
        } else if path.file_name() != Some("lock".as_ref()) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn sync(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.with_context(|| format!("failed to sync {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let work = tempfile::tempdir().expect("a folder can be made");
        let place = work.path().join("data");
        let begun = NewFolder::begin(&place).expect("there is none");
        fs::write(begun.path().join("file"), "half").expect("it is ours");
        assert!(NewFolder::begin(&place).is_err(), "two make the same folder");
        drop(begun);
        assert_eq!(fs::read_dir(work.path()).expect("it is there").count(), 0, "nothing is left");

        let begun = NewFolder::begin(&place).expect("there is none");
        fs::write(begun.path().join("file"), "whole").expect("it is ours");
        begun.finish().expect("the place is free");
        assert_eq!(fs::read_to_string(place.join("file")).expect("it is there"), "whole");
        let error = NewFolder::begin(&place).err().expect("it is not empty");
        assert!(format!("{error:#}").contains("not empty"), "{error:#}");
    }

    #[test]
    fn what_a_crash_left_is_thrown_away_and_an_empty_folder_is_replaced() {
        let work = tempfile::tempdir().expect("a folder can be made");
        let place = work.path().join("data");
        fs::create_dir(&place).expect("it is new");
        let left = work.path().join(".data.unfinished");
        fs::create_dir_all(left.join("components")).expect("it is new");
        fs::write(left.join("plan.db"), "half").expect("it is ours");
        let begun = NewFolder::begin(&place).expect("it is empty");
        assert_eq!(fs::read_dir(begun.path()).expect("it is there").count(), 1, "only the lock");
        begun.finish().expect("the place is free");
        assert!(!left.exists() && place.join("lock").exists());
    }
}
