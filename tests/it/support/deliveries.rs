//! [`Deliveries`]: a sink that remembers what it was given, and when as the disk counts time.

use super::vfs::Watch;
use anyhow::anyhow;
use keyfold::event::BatchId;
use keyfold::sink::{Sink, SinkError};
use keyfold::state::OutputBlock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Remembers the outputs of each batch. Clones share them.
#[derive(Clone, Default)]
pub struct Deliveries {
    pub delivered: Arc<Mutex<BTreeMap<u64, Delivery>>>,
    /// Where it is asked what time it is.
    pub watch: Option<Arc<Watch>>,
    /// The batch that it does not take.
    pub refuses: Option<u64>,
}

/// The outputs of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub lines: String,
    pub moment: usize,
}

impl Deliveries {
    /// What was delivered so far, by batch.
    pub fn all(&self) -> BTreeMap<u64, Delivery> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The outputs of each batch.
    pub fn lines(&self) -> BTreeMap<u64, String> {
        self.all().into_iter().map(|(batch, delivery)| (batch, delivery.lines)).collect()
    }

    /// A sink that has these already.
    pub fn with(delivered: BTreeMap<u64, Delivery>) -> Self {
        Deliveries { delivered: Arc::new(Mutex::new(delivered)), ..Deliveries::default() }
    }
}

impl Sink for Deliveries {
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        if self.refuses == Some(batch.0) {
            return Err(anyhow!("the sink does not take batch {batch}").into());
        }
        let lines: Vec<u8> = blocks.iter().flat_map(|block| block.lines.clone()).collect();
        let lines = String::from_utf8(lines).map_err(|error| anyhow!(error))?;
        if lines.is_empty() {
            return Ok(());
        }
        let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = delivered.get(&batch.0) {
            return match before.lines == lines {
                true => Ok(()),
                false => Err(anyhow!("batch {batch} was {} and is {lines}", before.lines).into()),
            };
        }
        let moment = self.watch.as_ref().map_or(0, |watch| watch.moment());
        delivered.insert(batch.0, Delivery { lines, moment });
        Ok(())
    }

    fn description(&self) -> String {
        "deliveries".to_owned()
    }
}
