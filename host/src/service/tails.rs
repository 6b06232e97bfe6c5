//! Tails: readers that stay, of a stream or of a rule's log. They end with the secret that they were begun with.

use super::events::shown;
use super::model::ReadEvent;
use super::rule_logs::{RuleLogs, Watching};
use super::secrets::Secrets;
use super::{Answer, Caller, Service, ServiceError, Wake};
use crate::source::ReadLimit;
use crate::stream::{EventNumber, StreamLog, Subscription};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of events that are read at once.
const READ_BYTES_MAX: usize = 1 << 20;

/// Whether whoever follows something still may.
pub(super) struct Still {
    caller: Caller,
    secrets: Arc<Secrets>,
    is_stopping: Arc<AtomicBool>,
}

/// Reads a stream from its end on.
pub struct StreamTail {
    still: Still,
    log: Arc<StreamLog>,
    /// The number of the next event of each partition.
    at: Vec<u64>,
    _told: Subscription,
}

/// Reads what a rule logs.
pub struct LogTail {
    still: Still,
    logs: Arc<RuleLogs>,
    next: u64,
    _told: Watching,
}

impl Service {
    /// Lets a caller follow something as long as its secret holds.
    pub(super) fn still(&self, caller: &Caller) -> Still {
        Still { caller: caller.clone(), secrets: Arc::clone(&self.secrets), is_stopping: Arc::clone(&self.is_stopping) }
    }
}

impl Still {
    fn check(&self) -> Answer<()> {
        if self.is_stopping.load(Ordering::Relaxed) {
            return Err(ServiceError::unavailable("stopping", "the server stops"));
        }
        match self.secrets.hold(&self.caller) {
            true => Ok(()),
            false => Err(ServiceError::forbidden("the token has ended")),
        }
    }
}

impl StreamTail {
    pub(super) fn new(still: Still, log: Arc<StreamLog>, wake: Wake) -> Self {
        // Told first, so that nothing comes between.
        let told = log.subscribe(wake);
        let at = log.ends().iter().map(|end| end.line).collect();
        StreamTail { still, log, at, _told: told }
    }

    /// Events that have come since, at most so many; empty when there are none now: the wake of the tail is called when there are. An
    /// error when the token has ended or the server stops.
    pub fn read(&mut self, limit: usize) -> Answer<Vec<ReadEvent>> {
        self.still.check()?;
        let mut events = Vec::new();
        for (partition, at) in (0..).zip(&mut self.at) {
            let limit = ReadLimit { records_max: limit - events.len(), bytes_max: READ_BYTES_MAX };
            if limit.records_max == 0 {
                break;
            }
            let stored = self.log.read(partition, EventNumber(*at), limit)?;
            *at = stored.last().map_or(*at, |last| last.number.0 + 1);
            events.extend(stored.into_iter().map(|event| shown(partition, event)));
        }
        Ok(events)
    }
}

impl LogTail {
    pub(super) fn new(still: Still, logs: Arc<RuleLogs>, wake: Wake) -> Self {
        let told = logs.watch(wake);
        LogTail { still, next: logs.end(), logs, _told: told }
    }

    /// Lines that have come since, each as JSON: `time`, `level`, `key`, `text`; or `dropped`, how many lines were too many to keep. An error when the token has ended or the server stops.
    pub fn read(&mut self) -> Answer<Vec<Value>> {
        self.still.check()?;
        let (lines, next) = self.logs.read(self.next);
        self.next = next;
        Ok(lines)
    }
}
