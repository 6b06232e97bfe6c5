//! [`FolderLock`]: a data folder that no second host may write.

use anyhow::{Context, Result, bail};
use std::fs::{File, TryLockError};
use std::path::Path;

/// A lock on a data folder, as long as this lives or until its process ends.
pub struct FolderLock(File);

impl FolderLock {
    /// Locks the folder, or says that another process has it.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join("lock");
        let file = File::create(&path).with_context(|| format!("failed to make {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(FolderLock(file)),
            Err(TryLockError::WouldBlock) => {
                bail!("the data folder {} is in use by another process: stop that one first", folder.display())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("failed to lock {}", path.display())),
        }
    }
}

impl Drop for FolderLock {
    /// Closing the file would not do: a child that is being started at this moment has it open as well, until it runs its program.
    fn drop(&mut self) {
        // Nothing is left to do about a failure; the end of the process unlocks as well.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A case of the conformance suite closed its host and could not open it again, because another test started a program.
    #[test]
    fn a_folder_is_free_although_a_child_still_has_the_file_open() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let lock = FolderLock::take(folder.path()).expect("the folder is new");
        let of_child = lock.0.try_clone().expect("a file can be opened twice");
        assert!(FolderLock::take(folder.path()).is_err(), "two have the folder");
        drop(lock);
        FolderLock::take(folder.path()).expect("nobody has the folder");
        drop(of_child);
    }
}
