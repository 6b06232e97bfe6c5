//! [`Queue`]: requests that wait for the disk. One of the waiting threads, the leader, writes for all; there is no thread of its own.

use super::append::{AppendError, Appended, Placed};
use super::prepare::Prepared;
use std::collections::VecDeque;
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What one commit takes at most, unless one request alone is larger: those that wait should not wait for very much of others.
const COMMIT_BYTES_MAX: usize = 8 << 20;
/// When it is worth trying again after too much waited: disks write what may wait in about this time.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Requests that wait for the disk.
pub(super) struct Queue {
    waiting: Mutex<AllWaiting>,
    bytes_max: usize,
}

#[derive(Default)]
struct AllWaiting {
    requests: VecDeque<Waiting>,
    bytes: usize,
    has_leader: bool,
}

/// A request whose thread waits.
pub(super) struct Waiting {
    pub request: Prepared,
    pub turn: Sender<Turn>,
    bytes: usize,
}

/// What a waiting thread is told.
pub(super) enum Turn {
    /// To write for all.
    Lead,
    /// Where its events are; the answer is waited for before anybody can read them.
    Places(Vec<Placed>, SyncSender<()>),
    /// What became of its request.
    Done(Result<Appended, AppendError>),
}

impl Queue {
    pub fn new(bytes_max: usize) -> Self {
        Queue { waiting: Mutex::default(), bytes_max }
    }

    /// Adds a request. Returns whether its thread is to lead.
    pub fn join(&self, request: Prepared, turn: Sender<Turn>) -> Result<bool, AppendError> {
        let bytes = request.bytes();
        let mut waiting = self.lock();
        if waiting.bytes > 0 && waiting.bytes + bytes > self.bytes_max {
            return Err(AppendError::Busy { retry_after: RETRY_AFTER });
        }
        waiting.bytes += bytes;
        waiting.requests.push_back(Waiting { request, turn, bytes });
        Ok(!std::mem::replace(&mut waiting.has_leader, true))
    }

    /// The requests of the next commit. The leader's own is the first one. When what is returned is dropped, another thread leads.
    pub fn lead(&self) -> Led<'_> {
        let mut waiting = self.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(first) = waiting.requests.front()
            && (taken.is_empty() || bytes + first.bytes <= COMMIT_BYTES_MAX)
            && let Some(first) = waiting.requests.pop_front()
        {
            bytes += first.bytes;
            taken.push(first);
        }
        Led { queue: self, bytes, requests: taken }
    }

    fn lock(&self) -> MutexGuard<'_, AllWaiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a leader leads.
pub(super) struct Led<'q> {
    queue: &'q Queue,
    bytes: usize,
    pub requests: Vec<Waiting>,
}

impl Drop for Led<'_> {
    /// The first of those that came meanwhile leads, also when this thread panics.
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        waiting.bytes -= self.bytes;
        // One whose thread is gone cannot lead.
        while let Some(first) = waiting.requests.front() {
            if first.turn.send(Turn::Lead).is_ok() {
                return;
            }
            let bytes = first.bytes;
            waiting.requests.pop_front();
            waiting.bytes -= bytes;
        }
        waiting.has_leader = false;
    }
}
