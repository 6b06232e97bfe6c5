//! [`WebhookSink`]: posts outputs to a URL, each with an id that it keeps when it is sent again.
//!
//! Outputs of one partition are sent one after another, and so those of one key. Several partitions are sent at the same time.

mod endpoint;
mod headers;
mod lane;

use super::{Outage, Refused, Sink, SinkError};
use crate::config::Webhook;
use crate::event::{BatchId, PartitionId};
use crate::state::OutputBlock;
use anyhow::{Result, anyhow};
use endpoint::{Endpoint, Failure};
use lane::Lane;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One output, as JSON.
    One,
    /// Many outputs of one partition in their order, one a line.
    Lines,
}

/// Posts outputs to a URL.
pub struct WebhookSink {
    endpoint: Endpoint,
    form: Form,
    concurrency: usize,
    refused: Refused,
    batch: Option<BatchId>,
    /// How far each partition's outputs of the batch are sent.
    lanes: Vec<Lane>,
    /// Whether the last attempt failed. Then the next one begins with one request, and goes on only when that is taken.
    is_failing: bool,
    give_up: Arc<AtomicBool>,
}

impl WebhookSink {
    /// Posts the outputs of a rule. `folder_id`, the id of its data folder, is the first part of each output's id.
    pub fn open(webhook: &Webhook, rule: &str, folder_id: &str) -> Result<Self> {
        Ok(WebhookSink {
            endpoint: Endpoint::new(webhook, rule, folder_id)?,
            form: webhook.form,
            concurrency: webhook.concurrency,
            refused: webhook.refused,
            batch: None,
            lanes: Vec::new(),
            is_failing: false,
            give_up: Arc::default(),
        })
    }

    /// Sends what is left, on several threads, and ends early when a request is not taken.
    fn send(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        let post = Post {
            endpoint: &self.endpoint,
            form: self.form,
            refused: self.refused,
            batch,
            sent: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            give_up: &self.give_up,
        };
        let mut left: Vec<_> = (0..)
            .map(PartitionId)
            .zip(self.lanes.iter_mut().zip(blocks))
            .filter(|(_, (lane, block))| !lane.is_done(block))
            .collect();
        if self.is_failing
            && let Some((partition, (lane, block))) = left.first_mut()
        {
            post.send_next(*partition, lane, block)?;
        }
        // Reversed, because the threads take them from the end.
        left.reverse();
        let threads = self.concurrency.min(left.len());
        let left = Mutex::new(left);
        let failures = Mutex::new(Vec::new());
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let work = || {
            while let Some((partition, (lane, block))) = next() {
                if let Err(failure) = post.send_all(partition, lane, block) {
                    failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A refusal is told first: once it is settled, the rest may be taken.
        let worst = failures.into_iter().min_by_key(|failure| match failure {
            SinkError::Broken(_) => (0, None),
            SinkError::Refused { partition, .. } => (1, Some(*partition)),
            SinkError::Unavailable(outage) => (2, Some(PartitionId(u32::from(outage.retry_after.is_none())))),
        });
        worst.map_or(Ok(()), Err)
    }
}

impl Sink for WebhookSink {
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        if self.batch != Some(batch) {
            self.batch = Some(batch);
            self.lanes = blocks.iter().map(|_| Lane::default()).collect();
        }
        let sent = self.send(batch, blocks);
        // A receiver that refuses an output is up.
        self.is_failing = matches!(sent, Err(SinkError::Unavailable(_)));
        sent
    }

    fn description(&self) -> String {
        format!("webhook[{}]", self.endpoint.shown())
    }

    fn refused(&self) -> Refused {
        self.refused
    }

    fn set_give_up(&mut self, give_up: &Arc<AtomicBool>) {
        self.give_up = Arc::clone(give_up);
    }
}

/// One attempt to send what is left of a batch.
struct Post<'a> {
    endpoint: &'a Endpoint,
    form: Form,
    refused: Refused,
    batch: BatchId,
    /// Requests that were taken.
    sent: AtomicU64,
    /// Whether some request was not.
    has_failed: AtomicBool,
    give_up: &'a AtomicBool,
}

impl Post<'_> {
    /// Sends all that is left of a partition, in order. Ends without an error when another partition has failed.
    fn send_all(&self, partition: PartitionId, lane: &mut Lane, block: &OutputBlock) -> Result<(), SinkError> {
        while !lane.is_done(block) && !self.has_failed.load(Ordering::Relaxed) {
            self.send_next(partition, lane, block)?;
        }
        Ok(())
    }

    fn send_next(&self, partition: PartitionId, lane: &mut Lane, block: &OutputBlock) -> Result<(), SinkError> {
        if self.give_up.load(Ordering::Relaxed) {
            return Err(self.unavailable(anyhow!("the host is stopping").into()));
        }
        let chunk = lane.next(self.form, block);
        let numbers = match chunk.count {
            1 => chunk.first.to_string(),
            count => format!("{}-{}", chunk.first, chunk.first + count - 1),
        };
        match self.endpoint.post(self.form, self.batch, partition, &numbers, chunk.bytes.to_vec()) {
            Ok(()) => {
                lane.sent(&chunk);
                self.sent.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            // Which of them it is shows when they are sent one by one.
            Err(Failure::Refused(_)) if chunk.count > 1 => {
                lane.split(&chunk);
                Ok(())
            }
            Err(Failure::Refused(error)) => {
                self.has_failed.store(true, Ordering::Relaxed);
                if self.refused == Refused::DeadLetter {
                    lane.sent(&chunk);
                }
                Err(SinkError::Refused { partition, number: chunk.first, error })
            }
            Err(Failure::Unavailable(outage)) => Err(self.unavailable(outage)),
            Err(Failure::Broken(error)) => {
                self.has_failed.store(true, Ordering::Relaxed);
                Err(SinkError::Broken(error))
            }
        }
    }

    fn unavailable(&self, outage: Outage) -> SinkError {
        self.has_failed.store(true, Ordering::Relaxed);
        SinkError::Unavailable(Outage { took_some: self.sent.load(Ordering::Relaxed) > 0, ..outage })
    }
}
