//! [`StreamLog`]: one stream.

mod reading;

use super::append::{AppendError, AppendRequest, Appended, OnPlaced};
use super::notes::Notes;
use super::open_partition;
use super::partition::{Partition, View};
use super::prepare::Preparing;
use super::queue::{Queue, Turn};
use super::remembered::Remembered;
use super::subscription::{Subscribers, Subscription, Wake};
use super::writer::{Writer, WrittenPart};
use super::{EventNumber, StreamLimits, StreamSettings};
use crate::clock::Clock;
use crate::event::Millis;
use crate::fault;
use anyhow::{Context, Result, anyhow, ensure};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One stream. Shared by whoever appends and whoever reads. Its folder must belong to this process alone.
pub struct StreamLog {
    folder: PathBuf,
    pub(super) clock: Clock,
    limits: StreamLimits,
    /// Its number in the cache.
    number: u64,
    pub(super) partitions: Vec<Partition>,
    chosen: Mutex<Chosen>,
    queue: Queue,
    /// Held by the thread that writes.
    pub(super) writer: Mutex<Writer>,
    subscribers: Arc<Subscribers>,
    counts: Counters,
}

/// The settings and what was made of them.
struct Chosen {
    settings: StreamSettings,
    preparing: Arc<Preparing>,
}

/// An event as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number in the partition.
    pub number: EventNumber,
    /// When it was taken.
    pub received: Millis,
    /// The event.
    pub json: Vec<u8>,
}

/// What a stream has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounts {
    /// Requests that were appended.
    pub requests: u64,
    /// Their events that were taken.
    pub events: u64,
    /// Times that something was written.
    pub commits: u64,
    /// Syncs of files for it: one for each partition that a commit reaches.
    pub syncs: u64,
}

#[derive(Default)]
struct Counters {
    requests: AtomicU64,
    events: AtomicU64,
    commits: AtomicU64,
    syncs: AtomicU64,
}

impl StreamLog {
    /// Opens or makes a stream in a folder. What a crash left of an append that nobody was told of is thrown away.
    pub fn open(folder: &Path, settings: StreamSettings, clock: Clock, limits: StreamLimits) -> Result<Self> {
        settings.check()?;
        let preparing = Arc::new(Preparing::new(&settings)?);
        fs::create_dir_all(folder).with_context(|| format!("failed to make the folder {}", folder.display()))?;
        check_partitions(folder, settings.partitions)?;
        let mut remembered = Remembered::new(settings.dedup.events);
        let (mut partitions, mut parts, mut noted) = (Vec::new(), Vec::new(), Vec::new());
        let mut last_received = Millis(i64::MIN);
        for number in 0..settings.partitions {
            let place = folder.join(number.to_string());
            let mut found = open_partition::open(&place, settings.dedup.events)?;
            last_received = last_received.max(found.last_received);
            noted.extend(found.notes.drain(..).map(|(received, first, notes)| (received, number, first, notes)));
            parts.push(written_part(&found));
            partitions.push(Partition::new(place, View { segments: found.segments, end: found.end }));
        }
        // What came last is remembered longest, whichever partition it is in.
        noted.sort_by_key(|(received, ..)| *received);
        noted.iter().for_each(|(_, partition, first, notes)| remembered.add(*partition, *first, notes));
        Ok(StreamLog {
            folder: folder.to_owned(),
            clock,
            number: limits.cache.new_log(),
            partitions,
            chosen: Mutex::new(Chosen { settings, preparing }),
            queue: Queue::new(limits.waiting_bytes_max),
            writer: Mutex::new(Writer::new(remembered, parts, last_received)?),
            subscribers: Arc::default(),
            counts: Counters::default(),
            limits,
        })
    }

    /// Appends events. Returns when they are on the disk. Requests that come meanwhile share the next sync.
    pub fn append(&self, request: AppendRequest<'_>) -> Result<Appended, AppendError> {
        let AppendRequest { events, idempotency_key, producer, mut on_placed } = request;
        let preparing = Arc::clone(&self.chosen().preparing);
        let prepared = preparing.prepare(events, idempotency_key.as_deref(), producer, on_placed.is_some())?;
        if prepared.events.is_empty() {
            return Ok(Appended::default());
        }
        let (turn, turns) = channel();
        let mut leads = self.queue.join(prepared, turn)?;
        loop {
            if leads {
                self.lead(&mut on_placed);
            }
            leads = false;
            match turns.recv() {
                Ok(Turn::Lead) => leads = true,
                Ok(Turn::Places(places, seen)) => {
                    if let Some(on_placed) = &mut on_placed {
                        on_placed(&places);
                    }
                    // Whoever leads waits for it; that thread may be gone.
                    let _ = seen.send(());
                }
                Ok(Turn::Done(result)) => return result,
                Err(_) => return Err(AppendError::Failed(anyhow!("the thread that wrote for this one has panicked"))),
            }
        }
    }

    /// Writes what waits, for all whose requests it is. The first request is the caller's own.
    fn lead(&self, own: &mut Option<&mut OnPlaced<'_>>) {
        let led = self.queue.lead();
        let mut answers = self.commit(&led);
        let mut told = Vec::new();
        for (index, (waiting, answer)) in led.requests.iter().zip(&answers).enumerate() {
            let Some(answer) = answer.as_ref().ok().filter(|answer| !answer.placed.is_empty() && !answer.repeated)
            else {
                continue;
            };
            if index == 0 {
                if let Some(own) = own {
                    own(&answer.placed);
                }
            } else if waiting.request.tells_places {
                let (seen, wait) = sync_channel(1);
                if waiting.turn.send(Turn::Places(answer.placed.clone(), seen)).is_ok() {
                    told.push(wait);
                }
            }
        }
        // One that panics meanwhile has seen enough.
        for wait in told {
            let _ = wait.recv();
        }
        let is_new = self.show();
        let turns: Vec<_> = led.requests.iter().map(|waiting| waiting.turn.clone()).collect();
        // From here on the next commit is made.
        drop(led);
        fault::point("stream-shown");
        if is_new {
            self.subscribers.wake();
        }
        for (turn, answer) in turns.into_iter().zip(answers.drain(..)) {
            let _ = turn.send(Turn::Done(answer));
        }
    }

    /// Puts the requests on the disk. Returns what becomes of each.
    fn commit(&self, led: &super::queue::Led<'_>) -> Vec<Result<Appended, AppendError>> {
        let all_failed = |error: &dyn Fn() -> AppendError| led.requests.iter().map(|_| Err(error())).collect();
        let Ok(mut writer) = self.writer.lock() else {
            return all_failed(&|| AppendError::Failed(anyhow!("an append has panicked: open the stream again")));
        };
        let (now, segment_bytes) = (self.clock.now(), self.segment_bytes());
        let mut commit = writer.begin(self.limits.block_bytes, now);
        let answers: Vec<_> = led.requests.iter().map(|waiting| commit.add(&waiting.request)).collect();
        let parts = std::mem::take(&mut commit.parts);
        drop(commit);
        let syncs = match writer.write(&self.partitions, &parts, segment_bytes, now) {
            Ok(syncs) => syncs,
            Err(error) => {
                let text = format!("failed to append to {}: {error}", self.folder.display());
                tracing::warn!("{text}; {} requests are refused", led.requests.len());
                let is_full = is_full(&error);
                return all_failed(&|| match is_full {
                    true => AppendError::Full(anyhow!(text.clone())),
                    false => AppendError::Failed(anyhow!(text.clone())),
                });
            }
        };
        for (partition, part) in (0..).zip(parts) {
            for (block, _) in part.blocks {
                self.limits.cache.put((self.number, partition, block.start.line), Arc::new(block));
            }
        }
        self.count(&answers, syncs);
        answers
    }

    fn count(&self, answers: &[Result<Appended, AppendError>], syncs: u64) {
        let done = || answers.iter().flatten();
        self.counts.requests.fetch_add(done().count() as u64, Ordering::Relaxed);
        let new = done().filter(|answer| !answer.repeated).map(|answer| answer.accepted);
        self.counts.events.fetch_add(new.sum(), Ordering::Relaxed);
        self.counts.commits.fetch_add(u64::from(syncs > 0), Ordering::Relaxed);
        self.counts.syncs.fetch_add(syncs, Ordering::Relaxed);
    }

    /// Lets readers see what is on the disk. Returns whether it is more than they saw before.
    fn show(&self) -> bool {
        let Ok(writer) = self.writer.lock() else { return false };
        let mut is_new = false;
        for (partition, part) in self.partitions.iter().zip(&writer.parts) {
            let mut view = partition.view();
            is_new |= view.end != part.end;
            view.end = part.end;
        }
        is_new
    }

    /// How many partitions it has.
    pub fn partitions(&self) -> u32 {
        self.partitions.len() as u32
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its settings.
    pub fn settings(&self) -> StreamSettings {
        self.chosen().settings.clone()
    }

    /// What it has done since it was opened.
    pub fn counts(&self) -> StreamCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { requests, events, commits, syncs } = &self.counts;
        StreamCounts { requests: count(requests), events: count(events), commits: count(commits), syncs: count(syncs) }
    }

    /// Calls `wake` after each append that can be read, as long as the subscription lives. It must be quick: whoever appends waits for
    /// it.
    pub fn subscribe(&self, wake: Wake) -> Subscription {
        self.subscribers.add(wake)
    }

    /// Changes the settings, from the next request on. Partitions and key cannot change.
    pub fn set_settings(&self, settings: StreamSettings) -> Result<()> {
        settings.check()?;
        let preparing = Arc::new(Preparing::new(&settings)?);
        let Ok(mut writer) = self.writer.lock() else { return Err(anyhow!("the stream must be opened again")) };
        let mut chosen = self.chosen();
        let before = &chosen.settings;
        ensure!(settings.partitions == before.partitions, "partitions of a stream cannot change");
        ensure!(
            settings.key == before.key || settings.partitions == 1,
            "the key of a stream with several partitions cannot change"
        );
        writer.remembered.set_max(settings.dedup.events);
        *chosen = Chosen { settings, preparing };
        Ok(())
    }

    /// From which size on a segment is followed by another one. Of a stream that may hardly grow, a small part can be deleted, too.
    fn segment_bytes(&self) -> u64 {
        const SMALL_BYTES: u64 = 1 << 20;
        let bytes = self.chosen().settings.retention.bytes;
        bytes.map_or(u64::MAX, |bytes| SMALL_BYTES.max(bytes / 8)).min(self.limits.segment_bytes)
    }

    fn partition(&self, number: u32) -> Result<&Partition> {
        let count = self.partitions.len();
        let partition = self.partitions.get(number as usize);
        partition.with_context(|| format!("there is no partition {number}; the stream has {count}"))
    }

    fn chosen(&self) -> MutexGuard<'_, Chosen> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the writer has to know of a partition that was found.
fn written_part(found: &open_partition::Found) -> WrittenPart {
    let mut part = WrittenPart { active: found.segments.last().cloned(), end: found.end, ..WrittenPart::default() };
    let of_header = part.active.iter().flat_map(|segment| segment.header.producers.clone()).collect::<Vec<_>>();
    let of_blocks = found.last_notes.iter().flat_map(|notes: &Notes| &notes.producers);
    of_header.iter().chain(of_blocks).for_each(|note| part.remember_producer(note));
    (part.ids, part.requests, part.last_received) = (found.ids, found.requests, found.last_received);
    part
}

/// Refuses a folder with other partitions than those asked for.
fn check_partitions(folder: &Path, partitions: u32) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("failed to look into {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let beyond = name.parse().is_ok_and(|number: u32| number >= partitions);
        ensure!(!beyond, "{} has a partition {name}, the stream is said to have {partitions}", folder.display());
    }
    Ok(())
}

/// Whether there is no space for what was written.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}
