//! [`StdoutSink`]: JSON lines on standard output.

use super::Sink;
use crate::event::BatchId;
use crate::state::OutputBlock;
use anyhow::{Context, Result};
use std::io::Write;

/// Standard output. It cannot be asked what it holds, so a batch whose delivery a crash interrupted is written again.
pub struct StdoutSink;

impl Sink for StdoutSink {
    fn deliver(&mut self, _: BatchId, blocks: &[OutputBlock]) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        blocks
            .iter()
            .try_for_each(|block| stdout.write_all(&block.lines))
            .and_then(|()| stdout.flush())
            .context("failed to write to standard output")
    }

    fn description(&self) -> String {
        "stdout".to_owned()
    }
}
