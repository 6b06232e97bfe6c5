//! [`Deliverer`]: the thread that gives batches to the sink, in order, and tries again until the sink has them.
//!
//! The host never waits for it but when too much waits in the outbox, or at the end. What it is given is durable already.

use super::breaker::{Breaker, Retry};
use super::control::Control;
use super::undelivered::{Blocks, Undelivered};
use crate::clock::Stopwatch;
use crate::event::{BatchId, PartitionId};
use crate::fault;
use crate::release::Release;
use crate::sink::{Outage, Refused, Sink, SinkError};
use crate::state::{OutboxReader, OutputBlock, RefusedOutput};
use crate::workers::caught;
use anyhow::{Context, Result};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread that delivers. It ends when this is dropped.
pub(super) struct Deliverer {
    shared: Arc<Shared>,
    news: Receiver<News>,
    thread: Option<JoinHandle<()>>,
    memory_bytes_max: usize,
}

/// What the thread reports. Batches come in the order in which they were given.
pub(super) enum News {
    /// The sink has a batch.
    Delivered(Delivered),
    /// The thread has ended: no batch can be delivered any more.
    Failed(anyhow::Error),
}

/// A batch that the sink has.
pub(super) struct Delivered {
    pub batch: BatchId,
    /// From the first attempt to the last.
    pub took_ms: u64,
    /// Outputs that it refused.
    pub refused: Vec<RefusedOutput>,
}

/// What the thread works with.
pub(super) struct Delivering {
    pub sink: Box<dyn Sink>,
    pub release: Arc<dyn Release>,
    pub outbox: OutboxReader,
    pub retry: Retry,
    /// Who is told that there is news.
    pub control: Arc<Control>,
}

impl Deliverer {
    /// Starts the thread. So many bytes of outputs are held in memory.
    pub fn start(delivering: Delivering, memory_bytes_max: usize) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (send, news) = channel();
        let of_thread = Thread::new(delivering, Arc::clone(&shared), send);
        let thread = std::thread::Builder::new()
            .name("deliverer".into())
            .spawn(move || of_thread.run())
            .context("failed to start the delivering thread")?;
        Ok(Deliverer { shared, news, thread: Some(thread), memory_bytes_max })
    }

    /// Adds a batch that all partitions have committed, with its outputs when they are at hand.
    pub fn push(&self, batch: BatchId, blocks: Option<Vec<OutputBlock>>) {
        self.shared.change(|state| state.undelivered.push(batch, blocks, self.memory_bytes_max));
    }

    /// What the thread reported, without waiting.
    pub fn news(&self) -> Option<News> {
        self.received(self.news.try_recv().ok())
    }

    /// What the thread reports, when it does within this time.
    pub fn news_within(&self, time: Duration) -> Result<Option<News>> {
        match self.news.recv_timeout(time) {
            Ok(news) => Ok(self.received(Some(news))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(anyhow::anyhow!("the delivering thread has ended")),
        }
    }

    /// Whether the last attempt failed.
    pub fn is_failing(&self) -> bool {
        self.shared.is_failing.load(Ordering::Relaxed)
    }

    /// Goes on after [`Deliverer::pause`].
    pub fn resume(&self) {
        self.shared.change(|state| {
            state.is_paused = false;
            self.shared.give_up.store(false, Ordering::Relaxed);
        });
    }

    /// Makes no further attempt, and returns when the one that runs has ended.
    pub fn pause(&self) {
        self.shared.change(|state| {
            state.is_paused = true;
            self.shared.give_up.store(true, Ordering::Relaxed);
        });
        let mut state = self.shared.lock();
        while state.is_busy {
            state = self.shared.wait(state);
        }
    }

    fn received(&self, news: Option<News>) -> Option<News> {
        if let Some(News::Delivered(Delivered { refused, .. })) = &news
            && !refused.is_empty()
        {
            self.shared.change(|state| state.has_unread_refusals = false);
        }
        news
    }
}

impl Drop for Deliverer {
    /// Waits for the thread, so that nothing is given to the sink any more when the data folder is unlocked.
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.is_closed = true;
            self.shared.give_up.store(true, Ordering::Relaxed);
        });
        if let Some(thread) = self.thread.take() {
            // A panic in it was reported.
            let _ = thread.join();
        }
    }
}

/// What host and thread share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Set while nothing is to be tried again.
    give_up: Arc<AtomicBool>,
    is_failing: AtomicBool,
}

#[derive(Default)]
struct State {
    undelivered: Undelivered,
    is_closed: bool,
    is_paused: bool,
    /// Whether the thread works on a batch.
    is_busy: bool,
    /// Whether the host has not yet read a report with refused outputs. Until it has, the thread refuses no more, so that at
    /// most those of one batch are in memory.
    has_unread_refusals: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next batch; none when the deliverer is closed.
    fn next(&self) -> Option<(BatchId, Option<Blocks>)> {
        self.change(|state| state.is_busy = false);
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if !state.is_paused
                && !state.has_unread_refusals
                && let Some(next) = state.undelivered.front().cloned()
            {
                state.is_busy = true;
                return Some((next.batch, next.blocks));
            }
            state = self.wait(state);
        }
    }

    /// Waits this long, or until nothing is to be tried again.
    fn sleep(&self, pause: Duration) {
        let waited = Stopwatch::start();
        let mut state = self.lock();
        while waited.elapsed() < pause && !self.give_up.load(Ordering::Relaxed) {
            let rest = pause.saturating_sub(waited.elapsed());
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The thread's side.
struct Thread {
    sink: Box<dyn Sink>,
    /// What the sink is called in messages.
    name: String,
    release: Arc<dyn Release>,
    outbox: OutboxReader,
    breaker: Breaker,
    started: Stopwatch,
    random: RandomState,
    shared: Arc<Shared>,
    news: Sender<News>,
    control: Arc<Control>,
    /// What was refused of the batch that is being delivered.
    refused: Vec<RefusedOutput>,
}

impl Thread {
    fn new(delivering: Delivering, shared: Arc<Shared>, news: Sender<News>) -> Self {
        let Delivering { mut sink, release, outbox, retry, control } = delivering;
        sink.set_give_up(&shared.give_up);
        Thread {
            name: sink.description(),
            sink,
            release,
            outbox,
            breaker: Breaker::new(retry),
            started: Stopwatch::start(),
            random: RandomState::new(),
            shared,
            news,
            control,
            refused: Vec::new(),
        }
    }

    fn run(mut self) {
        if let Err(error) = caught(|| self.deliver_all()) {
            // When nobody listens, the host is gone.
            let _ = self.news.send(News::Failed(error));
            self.control.notify();
        }
        self.shared.change(|state| state.is_busy = false);
    }

    fn deliver_all(&mut self) -> Result<()> {
        while let Some((batch, blocks)) = self.shared.next() {
            let Some(took_ms) = self.deliver(batch, blocks)? else { continue };
            let refused = std::mem::take(&mut self.refused);
            self.shared.change(|state| {
                state.undelivered.pop();
                state.has_unread_refusals = !refused.is_empty();
            });
            if self.news.send(News::Delivered(Delivered { batch, took_ms, refused })).is_err() {
                break;
            }
            self.control.notify();
        }
        Ok(())
    }

    /// Tries until the sink has the batch. None when it was given up before; the same batch is then the next one again.
    fn deliver(&mut self, batch: BatchId, blocks: Option<Blocks>) -> Result<Option<u64>> {
        let attempt = || format!("failed to deliver the outputs of batch {batch}");
        let mut delivering = None;
        let mut blocks = blocks;
        loop {
            if !self.release.wait(batch, &self.shared.give_up)? || self.shared.give_up.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let started = *delivering.get_or_insert_with(Stopwatch::start);
            // They are read when they may leave, not before: until then they need no memory.
            if blocks.is_none() {
                blocks = Some(Arc::new(self.outbox.read(batch).with_context(attempt)?));
            }
            let outputs = blocks.as_deref().map_or(&[][..], Vec::as_slice);
            fault::point("deliver-begin");
            let outage = match self.sink.deliver(batch, outputs) {
                Ok(()) => {
                    fault::point("delivered");
                    self.succeeded();
                    return Ok(Some(started.elapsed_ms()));
                }
                Err(SinkError::Broken(error)) => return Err(error.context(attempt())),
                Err(SinkError::Unavailable(outage)) => outage,
                Err(SinkError::Refused { partition, number, error }) => {
                    if self.sink.refused() == Refused::DeadLetter {
                        self.pass_over(batch, outputs, (partition, number), &error);
                        continue;
                    }
                    let what =
                        format!("output {number} of partition {partition} was refused; it is held, and all after it");
                    error.context(what).into()
                }
            };
            if self.shared.give_up.load(Ordering::Relaxed) {
                return Ok(None);
            }
            self.failed(&outage.error_of(attempt));
        }
    }

    /// The output goes to the dead letters; the sink passes over it when it gets the batch again.
    fn pass_over(
        &mut self,
        batch: BatchId,
        blocks: &[OutputBlock],
        (partition, number): (PartitionId, u64),
        error: &anyhow::Error,
    ) {
        let is_new = self.refused.iter().all(|known| (known.partition, known.number) != (partition, number));
        assert!(
            is_new,
            "output {number} of partition {partition} in batch {batch} was refused twice, and not passed over"
        );
        let output = blocks.get(partition.0 as usize).map_or(&[][..], |block| block.output(number));
        self.refused.push(RefusedOutput {
            batch,
            partition,
            number,
            output: String::from_utf8_lossy(output).into_owned(),
            message: format!("{error:#}"),
        });
    }

    fn failed(&mut self, outage: &Outage) {
        self.shared.is_failing.store(true, Ordering::Relaxed);
        let now = self.started.elapsed();
        let pause = self.breaker.failed(outage, now, self.random.hash_one(now));
        let (sink, error) = (&self.name, &outage.error);
        if pause.has_opened {
            tracing::warn!("the sink {sink} is down; outputs wait in the outbox and are tried again: {error:#}");
        } else {
            tracing::debug!("the sink {sink} failed, next attempt in {:?}: {error:#}", pause.length);
        }
        self.shared.sleep(pause.length);
    }

    fn succeeded(&mut self) {
        self.shared.is_failing.store(false, Ordering::Relaxed);
        if let Some(open) = self.breaker.succeeded(self.started.elapsed()) {
            tracing::warn!("the sink {} is back after {} s", self.name, open.as_secs());
        }
    }
}

impl Outage {
    /// The same, with what was attempted.
    fn error_of(self, attempt: impl FnOnce() -> String) -> Self {
        Outage { error: self.error.context(attempt()), ..self }
    }
}

#[cfg(test)]
mod tests;
