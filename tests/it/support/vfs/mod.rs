//! The disk under SQLite, watched in chosen folders: it can fail, and it can lose what was not synced.

mod power_loss;
mod shim;

pub use power_loss::Disk;

use rusqlite::ffi;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The folders that are watched. Tests run in parallel in one process, so everything else is left alone.
static WATCHED: Mutex<Vec<Arc<Folder>>> = Mutex::new(Vec::new());

/// A folder whose SQLite files are watched as long as this lives.
pub struct Watch(Arc<Folder>);

/// What fails in a watched folder.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    /// Which calls.
    pub calls: Calls,
    /// The first one that fails, counted from 0.
    pub first: u64,
    /// How many fail.
    pub count: u64,
    /// As what.
    pub error: Error,
}

/// The calls that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    Writes,
    Syncs,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// EIO.
    Io,
    /// ENOSPC.
    Full,
}

/// One thing that happened to a file. Files are known by their names in the folder.
#[derive(Debug)]
pub enum Event {
    Created(String),
    Written {
        name: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    Cut {
        name: String,
        length: u64,
    },
    /// `with_folder`: the names in the folder were, too.
    Synced {
        name: String,
        with_folder: bool,
    },
    /// `synced`: the folder was, too.
    Deleted {
        name: String,
        synced: bool,
    },
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// None when nobody wants to know them.
    events: Option<Vec<Event>>,
    writes: u64,
    syncs: u64,
    failure: Option<Failure>,
}

impl Watch {
    /// Watches the SQLite files of a folder that are opened from now on.
    pub fn folder(path: &Path) -> Self {
        shim::install();
        std::fs::create_dir_all(path).expect("the folder can be made");
        // As SQLite names files.
        let path = path.canonicalize().expect("it was just made");
        let folder = Arc::new(Folder { path, seen: Mutex::default() });
        watched().push(Arc::clone(&folder));
        Watch(folder)
    }

    /// Watches a folder, and keeps what happens in it.
    pub fn recording(path: &Path) -> Self {
        let watch = Watch::folder(path);
        watch.0.seen().events = Some(Vec::new());
        watch
    }

    /// Lets calls fail.
    pub fn fail(&self, failure: Failure) {
        self.0.seen().failure = Some(failure);
    }

    /// How many writes there were, failed ones included.
    pub fn writes(&self) -> u64 {
        self.0.seen().writes
    }

    /// How many syncs there were, failed ones included.
    pub fn syncs(&self) -> u64 {
        self.0.seen().syncs
    }

    /// How many events there were: the moment now.
    pub fn moment(&self) -> usize {
        self.0.seen().events.as_ref().map_or(0, Vec::len)
    }

    /// Ends the recording.
    pub fn take_events(&self) -> Vec<Event> {
        self.0.seen().events.take().unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        watched().retain(|folder| !Arc::ptr_eq(folder, &self.0));
    }
}

fn watched() -> MutexGuard<'static, Vec<Arc<Folder>>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The watched folder that a file lies in, and the file's name.
fn watched_file(path: &Path) -> Option<(Arc<Folder>, String)> {
    let folder = watched().iter().find(|folder| path.parent() == Some(&folder.path)).cloned()?;
    Some((folder, path.file_name()?.to_string_lossy().into_owned()))
}

impl Folder {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to a file, unless it is to fail, and keeps what happened. One at a time, so that the order is known.
    fn act(&self, calls: Option<Calls>, event: impl FnOnce() -> Event, act: impl FnOnce() -> i32) -> i32 {
        let mut seen = self.seen();
        if let Some(error) = calls.and_then(|calls| seen.count(calls)) {
            return error;
        }
        let code = act();
        if code == ffi::SQLITE_OK
            && let Some(events) = &mut seen.events
        {
            events.push(event());
        }
        code
    }
}

impl Seen {
    /// Counts a call, and says how it fails.
    fn count(&mut self, calls: Calls) -> Option<i32> {
        let counter = if calls == Calls::Writes { &mut self.writes } else { &mut self.syncs };
        let number = *counter;
        *counter += 1;
        let failure = self.failure.filter(|failure| {
            failure.calls == calls && (failure.first..failure.first + failure.count).contains(&number)
        })?;
        Some(match (failure.error, calls) {
            (Error::Full, Calls::Writes) => ffi::SQLITE_FULL,
            (Error::Io, Calls::Writes) => ffi::SQLITE_IOERR_WRITE,
            // SQLite does not look at why a sync failed.
            (_, Calls::Syncs) => ffi::SQLITE_IOERR_FSYNC,
        })
    }
}
