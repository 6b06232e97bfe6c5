//! [`Hold`]: what a writer does when the disk does not take what it writes. Without space it waits, until there is some or until
//! it is told to give up; after a failed sync it ends the process.

use crate::clock::Stopwatch;
use crate::synced;
use anyhow::{Context, Result};
use rusqlite::ffi;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// The first pause of a writer that has no space. Each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Somebody who makes space waits for the host no longer than this.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// How often a request to stop is looked at.
const POLL: Duration = Duration::from_millis(20);

/// Waits for space. Clones are told together to give up.
///
/// Nobody waits before [`Hold::unless`]: without somebody who may ask to stop, a full disk is an error like others.
#[derive(Debug, Clone, Default)]
pub struct Hold(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waits: AtomicBool,
    /// Who looks whether the work is to stop. It sleeps while nobody waits for space.
    watcher: Mutex<Option<Thread>>,
}

impl Hold {
    /// Does some work, in which writers wait for space unless `stop` is set.
    pub fn unless<T>(&self, stop: &AtomicBool, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        let watch = || {
            while !done.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    self.0.waits.store(false, Ordering::Relaxed);
                }
                thread::park();
            }
        };
        thread::scope(|scope| {
            self.0.waits.store(!stop.load(Ordering::Relaxed), Ordering::Relaxed);
            let watcher = scope.spawn(watch);
            *self.watcher() = Some(watcher.thread().clone());
            let _end = End { hold: self, done: &done, watcher: watcher.thread() };
            work()
        })
    }

    /// Writes to a file of states, all or nothing. While the disk is full, it is tried again; a failed sync ends the process.
    pub(super) fn write<T>(&self, path: &Path, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pause = PAUSE_MIN;
        let mut has_said = false;
        loop {
            let error = match attempt() {
                Ok(done) => {
                    if has_said {
                        tracing::warn!("there is space again for {}", path.display());
                    }
                    return Ok(done);
                }
                Err(error) => ended_by_sync(path, error),
            };
            if !is_full(&error) {
                return Err(error);
            }
            if !has_said && self.waits() {
                tracing::warn!(
                    "no space for {}: waiting until there is some; nothing is lost, make space or stop the run",
                    path.display()
                );
                has_said = true;
            }
            self.wait(pause);
            pause = PAUSE_MAX.min(pause * 2);
            if !self.waits() {
                let advice = "the disk is full: make space and run again, nothing is lost";
                return Err(error).with_context(|| format!("{}: {advice}", path.display()));
            }
        }
    }

    fn waits(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed)
    }

    fn watcher(&self) -> MutexGuard<'_, Option<Thread>> {
        self.0.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, pause: Duration) {
        let waited = Stopwatch::start();
        while self.waits() && waited.elapsed() < pause {
            if let Some(watcher) = &*self.watcher() {
                watcher.unpark();
            }
            thread::sleep(POLL.min(pause - waited.elapsed().min(pause)));
        }
    }
}

/// Ends the process when the error is a sync that failed; else gives it back.
pub(super) fn ended_by_sync(path: &Path, error: anyhow::Error) -> anyhow::Error {
    const FAILED_SYNCS: [i32; 2] = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
    if failure(&error).is_some_and(|failure| FAILED_SYNCS.contains(&failure.extended_code)) {
        synced::end(path, &format!("{error:#}"));
    }
    error
}

/// Whether a write found no space. The index of the log in shared memory is a file, too, which SQLite reports otherwise.
fn is_full(error: &anyhow::Error) -> bool {
    failure(error).is_some_and(|failure| {
        failure.extended_code & 0xff == ffi::SQLITE_FULL || failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE
    })
}

fn failure(error: &anyhow::Error) -> Option<&ffi::Error> {
    error.chain().find_map(|cause| cause.downcast_ref::<rusqlite::Error>()?.sqlite_error())
}

/// Ends the watcher of a stop, also when the work panics.
struct End<'w> {
    hold: &'w Hold,
    done: &'w AtomicBool,
    watcher: &'w Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.hold.0.waits.store(false, Ordering::Relaxed);
        *self.hold.watcher() = None;
        self.watcher.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn full() -> anyhow::Error {
        anyhow::Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None)).context("a write")
    }

    fn other() -> anyhow::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_WRITE), None).into()
    }

    #[test]
    fn a_full_disk_is_waited_for() {
        let (hold, tries) = (Hold::default(), AtomicU32::new(0));
        let written = hold.unless(&AtomicBool::new(false), || {
            hold.write(Path::new("a.db"), || match tries.fetch_add(1, Ordering::Relaxed) {
                0..3 => Err(full()),
                tried => Ok(tried),
            })
        });
        assert_eq!(written.unwrap(), 3);
    }

    #[test]
    fn a_stop_ends_the_waiting_and_the_message_says_what_to_do() {
        let (hold, stop) = (Hold::default(), AtomicBool::new(false));
        let tries = AtomicU32::new(0);
        let written: Result<()> = hold.unless(&stop, || {
            hold.clone().write(Path::new("a.db"), || {
                if tries.fetch_add(1, Ordering::Relaxed) == 2 {
                    stop.store(true, Ordering::Relaxed);
                }
                Err(full())
            })
        });
        let error = format!("{:#}", written.unwrap_err());
        assert!(error.contains("a.db: the disk is full: make space and run again"), "{error}");
        assert!(tries.into_inner() > 2);
    }

    #[test]
    fn nobody_waits_where_nobody_can_ask_to_stop_nor_for_another_error() {
        let (hold, tries) = (Hold::default(), AtomicU32::new(0));
        let fail = |error: fn() -> anyhow::Error| {
            hold.write(Path::new("a.db"), || {
                tries.fetch_add(1, Ordering::Relaxed);
                Err::<(), _>(error())
            })
        };
        fail(full).unwrap_err();
        hold.unless(&AtomicBool::new(false), || fail(other).unwrap_err());
        fail(full).unwrap_err();
        assert_eq!(tries.load(Ordering::Relaxed), 3);
    }
}
