//! [`Control`]: what others ask of a host while it runs: to look for news, and to run another version of the rule.

use super::{Activation, Swapped};
use crate::clock::Stopwatch;
use anyhow::{Context, Result};
use std::fmt;
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What others ask of a host while it runs. Shared with whoever asks.
#[derive(Default)]
pub struct Control {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Default)]
struct Asked {
    has_news: bool,
    activation: Option<Requested>,
}

/// An activation, and who is told what became of it.
pub struct Requested {
    /// What is to run.
    pub activation: Activation,
    reply: Box<dyn FnOnce(Result<Swapped>) + Send>,
}

/// Another activation came before one took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced;

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another activation came before this one took effect")
    }
}

impl std::error::Error for Replaced {}

impl Requested {
    /// `reply` is called on the host's thread, before the first batch with it; or it is dropped with the host.
    pub fn new(activation: Activation, reply: impl FnOnce(Result<Swapped>) + Send + 'static) -> Self {
        Requested { activation, reply: Box::new(reply) }
    }

    /// Tells whoever asked that another activation came before.
    pub fn is_replaced(self) {
        self.reply(Err(Replaced.into()));
    }

    /// Tells whoever asked.
    pub fn reply(self, swapped: Result<Swapped>) {
        (self.reply)(swapped);
    }
}

impl Control {
    /// There is something to read, or a reason to look whether the run is to stop.
    pub fn notify(&self) {
        self.lock().has_news = true;
        self.changed.notify_all();
    }

    /// Waits until there is news, at most this long, and tells whether there was. News that came before counts.
    pub fn wait(&self, at_most: Duration) -> bool {
        let waited = Stopwatch::start();
        let mut asked = self.lock();
        while !asked.has_news && waited.elapsed() < at_most {
            let rest = at_most.saturating_sub(waited.elapsed());
            asked = self.changed.wait_timeout(asked, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut asked.has_news)
    }

    /// Asks for another version of the rule, and waits for the batch boundary at which it takes effect. When nobody runs the host
    /// now, it waits for the next run. A run that fails refuses what still waits.
    pub fn activate(&self, activation: Activation) -> Result<Swapped> {
        let (send, replied) = sync_channel(1);
        // Whoever asked may have gone.
        let replaced = self.request(Requested::new(activation, move |swapped| drop(send.send(swapped))));
        replaced.into_iter().for_each(Requested::is_replaced);
        replied.recv().context("the host ended before the activation took effect")?
    }

    /// Asks for another version of the rule, and does not wait. Returns the activation that will not take effect because of it: whoever
    /// asked for that one is to be told.
    #[must_use]
    pub fn request(&self, requested: Requested) -> Option<Requested> {
        let replaced = self.lock().activation.replace(requested);
        self.notify();
        replaced
    }

    /// Whether an activation waits for a batch boundary.
    pub fn has_activation(&self) -> bool {
        self.lock().activation.is_some()
    }

    /// The activation that was asked for.
    pub fn take_activation(&self) -> Option<Requested> {
        self.lock().activation.take()
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
