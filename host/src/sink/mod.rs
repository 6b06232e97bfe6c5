//! Sinks: where outputs go. A sink gets each batch's outputs once in normal running, in order, and once more after a crash
//! that came between delivering and writing that down; the id of an output (rule, partition, batch, number) is then the same.

mod files;
mod memory;
mod stdout;

pub use files::FilesSink;
pub use memory::MemorySink;
pub use stdout::StdoutSink;

use crate::event::BatchId;
use crate::state::OutputBlock;
use anyhow::Result;

/// Where outputs go.
pub trait Sink: Send {
    /// Takes the outputs of a batch, one block for each partition. When it returns, they are safe with it.
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<()>;

    /// For progress reports: what it writes to.
    fn description(&self) -> String;
}
