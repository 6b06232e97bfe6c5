//! [`Deliveries`]: what waits for the sink, and how much may.

use super::breaker::Retry;
use super::control::Control;
use super::deliverer::{Deliverer, Delivering};
use crate::clock::Span;
use crate::event::BatchId;
use crate::progress::{BatchTimes, Progress};
use crate::release::{AfterCommit, Release};
use crate::sink::Sink;
use crate::state::{OutboxReader, OutputBlock, OutputSize};
use anyhow::Result;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Bytes of outputs that may wait for the sink: a day of a small rule, and a small part of any disk.
pub const OUTBOX_BYTES_MAX_DEFAULT: u64 = 1024 * 1024 * 1024;
/// Batches that may wait for the sink, as each keeps a record of its progress in memory.
const OUTBOX_BATCHES_MAX: u64 = 1000;
/// Bytes of outputs that are held in memory while they wait. What is beyond is read from the outbox again.
const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How outputs are delivered.
#[derive(Clone)]
pub struct Delivery {
    /// When no further batch is planned: so many bytes of outputs wait for the sink.
    pub outbox_bytes_max: u64,
    /// Likewise: so many batches wait.
    pub outbox_batches_max: u64,
    /// Bytes of outputs that are held in memory while they wait.
    pub memory_bytes_max: usize,
    /// How a sink that fails is tried again.
    pub retry: Retry,
    /// When outputs may leave.
    pub release: Arc<dyn Release>,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery {
            outbox_bytes_max: OUTBOX_BYTES_MAX_DEFAULT,
            outbox_batches_max: OUTBOX_BATCHES_MAX,
            memory_bytes_max: MEMORY_BYTES_MAX,
            retry: Retry::default(),
            release: Arc::new(AfterCommit),
        }
    }
}

/// What waits for the sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outbox {
    /// Batches, those without outputs included.
    pub batches: u64,
    /// Their outputs.
    pub outputs: u64,
    /// And the bytes of these.
    pub bytes: u64,
    /// Whether the last attempt to deliver failed.
    pub is_failing: bool,
    /// Outputs that the sink refused since the host was opened, and that went to the dead letters.
    pub refused: u64,
}

/// The host's side of delivering.
pub(super) struct Deliveries {
    pub deliverer: Deliverer,
    waiting: VecDeque<Waiting>,
    outbox: Outbox,
    /// The last batch that is delivered or waits.
    handed_over: Option<BatchId>,
    /// What the sink is called.
    pub sink: String,
    bytes_max: u64,
    batches_max: u64,
    /// Whether it was said that the source is held back, since everything was delivered last.
    has_said_so: bool,
}

/// A batch that waits for the sink: what its progress is made from. Its input is gone.
pub(super) struct Waiting {
    pub progress: Progress,
    pub times: BatchTimes,
    /// From the first partition that began to the last that has committed.
    pub worked: Option<Span>,
    pub source_bytes: Option<(u64, u64)>,
    pub size: OutputSize,
}

impl Deliveries {
    pub fn start(
        folder: &Path,
        partitions: u32,
        sink: Box<dyn Sink>,
        delivery: &Delivery,
        delivered: Option<BatchId>,
        control: &Arc<Control>,
    ) -> Result<Self> {
        let name = sink.description();
        let outbox = OutboxReader::new(folder, partitions);
        let (release, retry, control) = (Arc::clone(&delivery.release), delivery.retry, Arc::clone(control));
        let delivering = Delivering { sink, release, outbox, retry, control };
        Ok(Deliveries {
            deliverer: Deliverer::start(delivering, delivery.memory_bytes_max)?,
            waiting: VecDeque::new(),
            outbox: Outbox::default(),
            handed_over: delivered,
            sink: name,
            bytes_max: delivery.outbox_bytes_max.max(1),
            batches_max: delivery.outbox_batches_max.max(1),
            has_said_so: false,
        })
    }

    /// Goes on after a run that was stopped.
    pub fn resume(&self) {
        self.deliverer.resume();
    }

    /// The first batch that was not handed over.
    pub fn next(&self) -> BatchId {
        BatchId(self.handed_over.map_or(0, |batch| batch.0 + 1))
    }

    /// What waits now.
    pub fn outbox(&self) -> Outbox {
        Outbox { is_failing: self.deliverer.is_failing(), ..self.outbox }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether so much waits that no further batch may be planned.
    pub fn is_full(&self) -> bool {
        self.outbox.batches >= self.batches_max || self.outbox.bytes >= self.bytes_max
    }

    /// Gives a batch to the deliverer, with its outputs when they are at hand.
    pub fn hand_over(&mut self, batch: BatchId, waiting: Waiting, blocks: Option<Vec<OutputBlock>>) {
        self.outbox.batches += 1;
        self.outbox.outputs += waiting.size.outputs;
        self.outbox.bytes += waiting.size.bytes;
        self.waiting.push_back(waiting);
        self.handed_over = Some(batch);
        self.deliverer.push(batch, blocks);
    }

    /// A batch is delivered, and the sink refused so many of its outputs.
    pub fn take(&mut self, batch: BatchId, refused: usize) -> Waiting {
        let waiting = self.waiting.pop_front().expect("only batches that wait are delivered");
        assert_eq!(waiting.progress.batch_id, batch, "batches are delivered in order");
        self.outbox.batches -= 1;
        self.outbox.outputs -= waiting.size.outputs;
        self.outbox.bytes -= waiting.size.bytes;
        self.outbox.refused += refused as u64;
        self.has_said_so &= !self.waiting.is_empty();
        waiting
    }

    /// Says once that the source is held back, until everything is delivered.
    pub fn say_that_it_is_full(&mut self) {
        if !std::mem::replace(&mut self.has_said_so, true) {
            let Outbox { batches, outputs, bytes, .. } = self.outbox;
            tracing::warn!(
                "the source is held back: {batches} batches with {outputs} outputs, {bytes} bytes, wait for the sink {} \
                 (outbox-bytes-max is {}, and at most {} batches wait); nothing is lost",
                self.sink,
                self.bytes_max,
                self.batches_max
            );
        }
    }
}
