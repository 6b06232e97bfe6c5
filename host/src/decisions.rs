//! [`Decisions`]: events that somebody waits for, and what the rule says to them.
//!
//! Whoever asks is registered before its event can be read. When a batch has the event, the outputs for its key are kept beside the
//! others, and told as soon as the partition has committed them: what was told once is never taken back.

use crate::event::{BatchId, InputId, KeyGroup, Millis, PartitionId};
use crate::input::BatchInput;
use crate::plan::Plan;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The events of one rule that somebody waits for.
#[derive(Default)]
pub struct Decisions {
    waiting: Mutex<BTreeMap<Place, SyncSender<Decided>>>,
}

/// Where an event lies: input, partition of its stream, number.
type Place = (InputId, u32, u64);

/// Somebody who waits. When it goes, nobody does.
pub struct Ticket {
    decisions: Arc<Decisions>,
    place: Place,
    decided: Receiver<Decided>,
}

/// What a rule says to an event, and with which knowledge. It is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The batch that had the event.
    pub batch: BatchId,
    /// Its processing time.
    pub time: Millis,
    /// The key of the event; none when it has none.
    pub key: Option<String>,
    /// The component that was called.
    pub digest: String,
    /// What it calls its version.
    pub version: String,
    /// What it said.
    pub verdict: Verdict,
}

/// What a rule said for the key of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its outputs for the key in this batch, each as JSON.
    Outputs(Vec<String>),
    /// It could not be asked, or it failed: a word for machines as in the dead letter, and a message.
    Failed {
        /// The word.
        reason: String,
        /// The message.
        message: String,
    },
}

/// What was said for one key of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfKey {
    /// The key.
    pub key: Vec<u8>,
    /// The component that was called.
    pub digest: String,
    /// What it calls its version.
    pub version: String,
    /// What it said.
    pub verdict: Verdict,
}

/// The keys of one batch that somebody waits for.
#[derive(Default)]
pub struct Awaited {
    by_key: HashMap<Vec<u8>, Mutex<Vec<SyncSender<Decided>>>>,
}

impl Decisions {
    /// Waits for an event. It must not be readable yet.
    pub fn register(self: &Arc<Self>, input: InputId, partition: u32, number: u64) -> Ticket {
        let (send, decided) = sync_channel(1);
        let place = (input, partition, number);
        self.lock().insert(place, send);
        Ticket { decisions: Arc::clone(self), place, decided }
    }

    /// How many wait for an event that no batch has read yet.
    pub fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// What of a planned batch somebody waits for. Events that cannot be handled are answered at once: that is decided by the plan.
    /// `late` is up to where events are late.
    pub fn of_batch(&self, plan: &Plan, input: &BatchInput, late: Option<Millis>) -> Option<Arc<Awaited>> {
        let mut asked = self.take(plan)?;
        let mut awaited = Awaited::default();
        let records = &input.records.records;
        for event in &input.extracted.events {
            if input.is_re_driven(event) {
                continue;
            }
            let record = records[event.record as usize];
            let Some(sender) = asked.remove(&(record.range, record.line)) else { continue };
            let key = input.extracted.key_of(event);
            if late.is_some_and(|late| event.time_ms <= late.0) {
                tell_late(&sender, plan, key);
                continue;
            }
            let of_key = awaited.by_key.entry(key.to_vec()).or_default();
            of_key.get_mut().unwrap_or_else(PoisonError::into_inner).push(sender);
        }
        for rejected in input.records.rejected.iter().chain(&input.extracted.rejected) {
            if let Some(sender) = asked.remove(&(rejected.range, rejected.line)) {
                tell(&sender, plan, None, rejected.reason, rejected.message.clone());
            }
        }
        (!awaited.by_key.is_empty()).then(|| Arc::new(awaited))
    }

    /// Those that wait for an event of a plan, by range and line.
    fn take(&self, plan: &Plan) -> Option<HashMap<(u32, u64), SyncSender<Decided>>> {
        let mut waiting = self.lock();
        if waiting.is_empty() {
            return None;
        }
        let mut asked = HashMap::new();
        for (number, range) in (0..).zip(&plan.ranges) {
            let Ok(partition) = range.file.parse::<u32>() else { continue };
            let place = |line| (range.input, partition, line);
            let found: Vec<Place> =
                waiting.range(place(range.from.line)..place(range.to.line)).map(|(place, _)| *place).collect();
            for found in found {
                // Lines count from 1, events from 0.
                asked.extend(waiting.remove(&found).map(|sender| ((number, found.2 + 1), sender)));
            }
        }
        (!asked.is_empty()).then_some(asked)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, SyncSender<Decided>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// What the rule says, when it does within this time. An error says that it never will: the run has failed.
    pub fn wait(&self, at_most: Duration) -> Result<Option<Decided>, Gone> {
        match self.decided.recv_timeout(at_most) {
            Ok(decided) => Ok(Some(decided)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }
}

/// The batch that had the event failed before it was committed. It is run again, and nobody is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

impl Drop for Ticket {
    fn drop(&mut self) {
        self.decisions.lock().remove(&self.place);
    }
}

impl Awaited {
    /// Whether somebody waits for this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.by_key.contains_key(key)
    }

    /// A partition has committed what was said. Of its keys that nothing was said of, all events were late.
    pub fn committed(&self, plan: &Plan, partition: PartitionId, partitions: u32, said: Vec<OfKey>) {
        for OfKey { key, digest, version, verdict } in said {
            let Some(senders) = self.by_key.get(&key) else { continue };
            let decided = Decided {
                batch: plan.batch,
                time: plan.time,
                key: Some(String::from_utf8_lossy(&key).into_owned()),
                digest,
                version,
                verdict,
            };
            for sender in senders.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
                // Whoever asked may have gone.
                let _ = sender.try_send(decided.clone());
            }
        }
        for (key, senders) in &self.by_key {
            if KeyGroup::of(key).partition(partitions) == partition {
                for sender in senders.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
                    tell_late(&sender, plan, key);
                }
            }
        }
    }
}

/// Tells that an event is late.
fn tell_late(sender: &SyncSender<Decided>, plan: &Plan, key: &[u8]) {
    let watermark = plan.late_watermark.unwrap_or_default();
    tell(
        sender,
        plan,
        Some(key),
        "late",
        format!("the event is late: the watermark of the batch before is {watermark}"),
    );
}

/// Tells that an event cannot be handled.
fn tell(sender: &SyncSender<Decided>, plan: &Plan, key: Option<&[u8]>, reason: &str, message: String) {
    let _ = sender.try_send(Decided {
        batch: plan.batch,
        time: plan.time,
        key: key.map(|key| String::from_utf8_lossy(key).into_owned()),
        digest: plan.digest.clone(),
        version: String::new(),
        verdict: Verdict::Failed { reason: reason.to_owned(), message },
    });
}
