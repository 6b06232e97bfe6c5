//! [`StreamSink`]: puts a rule's outputs into a stream, each once: the stream knows the batches of each producer.

use super::{Refused, Sink, SinkError};
use crate::event::{BatchId, PartitionId};
use crate::state::OutputBlock;
use crate::stream::{AppendError, AppendRequest, NewEvent, StreamLog};
use anyhow::anyhow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A stream.
pub struct StreamSink {
    log: Arc<StreamLog>,
    producer: String,
    name: String,
    /// Outputs of the batch that can be no events, and were reported.
    refused: (BatchId, BTreeSet<(PartitionId, u64)>),
}

impl StreamSink {
    /// Appends to a stream as this producer: the id of the rule, which no other rule has or will have.
    pub fn new(log: Arc<StreamLog>, producer: String) -> Self {
        StreamSink { log, producer, name: "stream".to_owned(), refused: (BatchId(0), BTreeSet::new()) }
    }

    /// Names the stream in reports.
    pub fn named(self, name: &str) -> Self {
        StreamSink { name: format!("stream[{name}]"), ..self }
    }

    /// The outputs as events, without those that were refused before.
    fn events(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<Vec<NewEvent>, SinkError> {
        if self.refused.0 != batch {
            self.refused = (batch, BTreeSet::new());
        }
        let mut events = Vec::new();
        for (partition, block) in (0..).map(PartitionId).zip(blocks) {
            let lines = block.lines.split_inclusive(|&byte| byte == b'\n');
            for (number, line) in (0..).zip(lines) {
                if self.refused.1.contains(&(partition, number)) {
                    continue;
                }
                match NewEvent::new(line.trim_ascii_end()) {
                    Ok(event) => events.push(event),
                    Err(refusal) => {
                        self.refused.1.insert((partition, number));
                        return Err(SinkError::Refused { partition, number, error: anyhow!(refusal.message) });
                    }
                }
            }
        }
        Ok(events)
    }
}

impl Sink for StreamSink {
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        let events = self.events(batch, blocks)?;
        if events.is_empty() {
            return Ok(());
        }
        let producer = Some((self.producer.clone(), batch.0));
        match self.log.append(AppendRequest { events, producer, ..AppendRequest::default() }) {
            Ok(_) => Ok(()),
            Err(error @ (AppendError::Busy { .. } | AppendError::Full(_))) => {
                Err(SinkError::Unavailable(anyhow!(error).into()))
            }
            Err(error) => Err(SinkError::Broken(anyhow!(error))),
        }
    }

    fn description(&self) -> String {
        self.name.clone()
    }

    fn refused(&self) -> Refused {
        Refused::DeadLetter
    }
}
