//! Syncing the host's own files. A sync that failed ends the process.
//!
//! After a failed sync the system may count what was not written as written, so a second one succeeds and proves nothing
//! (Rebello et al., "Can Applications Recover from fsync Failures?", ACM TOS 17(2), 2021). The next start reads what is
//! really there.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::Path;

/// The exit code of a process that ended because of a failed sync: that of an error, as of all others.
const EXIT_CODE: i32 = 1;

/// Waits until a file, with its length, is on the disk.
pub fn file(file: &File, path: &Path) {
    if let Err(error) = file.sync_all() {
        end(path, &error);
    }
}

/// Waits until what is in a file is on the disk, with its length and without its times.
pub fn data(file: &File, path: &Path) {
    if let Err(error) = file.sync_data() {
        end(path, &error);
    }
}

/// Waits until the names in a folder are on the disk. An error: the folder cannot be opened.
pub fn folder(path: &Path) -> io::Result<()> {
    file(&File::open(path)?, path);
    Ok(())
}

/// Ends the process, at once: nothing is closed, because closing a file of states writes to it.
pub fn end(path: &Path, error: &dyn Display) -> ! {
    eprintln!(
        "error: failed to sync {}: {error}; nobody knows now what is on the disk, so the process ends: look after the disk, then \
         start again, and everything goes on from what was safe",
        path.display()
    );
    std::process::exit(EXIT_CODE)
}
