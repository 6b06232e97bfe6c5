//! [`Runners`]: what all rules of a process share.

use super::alarm::Alarm;
use super::events::RunnerEvents;
use crate::clock::Clock;
use crate::fair::FairShare;
use crate::state::Budget;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What all rules of a process share.
pub struct Runners {
    pub(super) clock: Clock,
    pub(super) share: FairShare,
    /// What the changed states of all rules may take in memory before they are folded into their tables.
    pub(super) overlay_budget: Budget,
    pub(super) events: Arc<dyn RunnerEvents>,
    pub(super) alarm: Alarm,
    next_number: AtomicU64,
    running: AtomicUsize,
    opening: Opening,
}

/// Opening a data folder reads files and makes tables. When many rules are woken together, few are opened at the same time.
struct Opening {
    free: Mutex<usize>,
    changed: Condvar,
}

impl Runners {
    /// Rules compute on this share, and tell these of what happens.
    pub fn new(
        clock: Clock,
        share: FairShare,
        overlay_budget: Budget,
        events: Arc<dyn RunnerEvents>,
    ) -> Result<Arc<Self>> {
        // Each open rule has some ten files open, and the usual limit is a thousand.
        if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
            tracing::warn!("the limit on open files stays as it is: {error}");
        }
        let alarm = Alarm::start(clock.clone()).context("failed to start a thread")?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let opening = Opening { free: Mutex::new(2 * cores), changed: Condvar::new() };
        Ok(Arc::new(Runners {
            clock,
            share,
            overlay_budget,
            events,
            alarm,
            next_number: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            opening,
        }))
    }

    /// The cores, and what tenants have of them.
    pub fn share(&self) -> &FairShare {
        &self.share
    }

    /// A clock that is moved by hand was moved.
    pub fn look_at_the_clock(&self) {
        self.alarm.look();
    }

    /// How many rules are open.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub(super) fn count_running(&self, starts: bool) {
        match starts {
            true => self.running.fetch_add(1, Ordering::SeqCst),
            false => self.running.fetch_sub(1, Ordering::SeqCst),
        };
    }

    pub(super) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Opens something when few others are being opened.
    pub(super) fn opening<T>(&self, open: impl FnOnce() -> T) -> T {
        let free = self.opening.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.opening.changed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let _opened = Opened(&self.opening);
        open()
    }
}

struct Opened<'o>(&'o Opening);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.changed.notify_one();
    }
}
