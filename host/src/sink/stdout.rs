//! [`StdoutSink`]: JSON lines on standard output.

use super::{Sink, SinkError};
use crate::event::BatchId;
use crate::state::OutputBlock;
use anyhow::Context;
use std::io::Write;

/// Standard output. It cannot be asked what it holds, so a batch whose delivery a crash interrupted is written again.
pub struct StdoutSink;

impl Sink for StdoutSink {
    fn deliver(&mut self, _: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        let mut stdout = std::io::stdout().lock();
        let written = blocks.iter().try_for_each(|block| stdout.write_all(&block.lines)).and_then(|()| stdout.flush());
        Ok(written.context("failed to write to standard output")?)
    }

    fn description(&self) -> String {
        "stdout".to_owned()
    }
}
