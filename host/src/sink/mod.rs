//! Sinks: where outputs go. A sink gets each batch's outputs once in normal running, in order, and once more after a crash
//! that came between delivering and writing that down; the id of an output (rule, partition, batch, number) is then the same.

mod files;
mod memory;
mod stdout;
mod stream;
pub mod webhook;

pub use files::FilesSink;
pub use memory::MemorySink;
pub use stdout::StdoutSink;
pub use stream::StreamSink;
pub use webhook::WebhookSink;

use crate::event::{BatchId, PartitionId};
use crate::state::OutputBlock;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Where outputs go.
pub trait Sink: Send {
    /// Takes the outputs of a batch, one block for each partition. When it returns, they are safe with it.
    ///
    /// After a failure the same batch is given again: a sink that took a part of it may go on after that part.
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError>;

    /// For progress reports: what it writes to.
    fn description(&self) -> String;

    /// What becomes of an output that it refuses. With [`Refused::DeadLetter`] the sink passes over such an output by itself
    /// when it gets the batch again.
    fn refused(&self) -> Refused {
        Refused::Hold
    }

    /// Gets, before the first batch, what is set when nobody waits any more: a delivery that takes long then ends as soon as
    /// it can, with [`SinkError::Unavailable`].
    fn set_give_up(&mut self, _: &Arc<AtomicBool>) {}
}

/// Why a batch, or the rest of it, was not taken.
#[derive(Debug)]
pub enum SinkError {
    /// Not now. The batch is given again until it is taken.
    Unavailable(Outage),
    /// The receiver will never take this output.
    Refused {
        /// Whose output it is.
        partition: PartitionId,
        /// Its number in the block.
        number: u64,
        /// Why.
        error: anyhow::Error,
    },
    /// Trying again would do harm or no good. The run ends.
    Broken(anyhow::Error),
}

/// The receiver cannot be reached, or asks to wait.
#[derive(Debug)]
pub struct Outage {
    /// What happened.
    pub error: anyhow::Error,
    /// How long the receiver asks to wait.
    pub retry_after: Option<Duration>,
    /// Whether it took some of the outputs first: then it is slow rather than down.
    pub took_some: bool,
}

/// What becomes of an output that the receiver will never take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refused {
    /// It is held and tried again, and what comes after it waits: nothing is lost, and somebody must look.
    #[default]
    Hold,
    /// It goes to the dead letters, and what comes after it is delivered.
    DeadLetter,
}

impl From<anyhow::Error> for SinkError {
    fn from(error: anyhow::Error) -> Self {
        SinkError::Broken(error)
    }
}

impl From<anyhow::Error> for Outage {
    fn from(error: anyhow::Error) -> Self {
        Outage { error, retry_after: None, took_some: false }
    }
}
