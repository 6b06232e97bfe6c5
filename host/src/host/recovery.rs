//! Recovering: what a crash or a stop interrupted is finished. Batches that some partition has not committed are run again as they
//! were planned; of those that all have committed, only the outputs are delivered.

use super::{Host, Observer};
use crate::event::{InputId, OffsetRange, RecordBatch};
use crate::fault;
use crate::progress::BatchTimes;
use crate::source::Source;
use crate::state::OutboxReader;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering};

impl Host {
    /// Finishes what was interrupted, and lets the source continue after what was planned. When it is stopped, the next run
    /// goes on with it.
    pub fn recover(&mut self, source: &mut dyn Source, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<()> {
        fault::point("recover-begin");
        let positions = self.plan_log.positions()?;
        self.imports.seek(&positions)?;
        source.seek(&positions)?;
        let (undelivered, uncommitted) = (self.deliveries.next(), self.uncommitted);
        let plans = self.plan_log.from(undelivered.min(uncommitted))?;
        let partitions = self.settings.identity.partitions;
        let sizes = match plans.first() {
            Some(first) if first.batch < uncommitted => {
                OutboxReader::new(&self.settings.folder, partitions).sizes(first.batch)?
            }
            _ => Default::default(),
        };
        for plan in plans {
            // What must be in the checkpoint before it leaves could not leave: the checkpoint begins only after this.
            if !self.waits_to_begin() {
                self.hold_back(stop, observer)?;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if plan.batch < uncommitted {
                let size = sizes.get(&plan.batch).copied().unwrap_or_default();
                self.hand_over_committed(&plan, size, source);
                continue;
            }
            let mut times = BatchTimes::start(self.clock.now());
            let mut records = RecordBatch::default();
            self.replay(source, &plan.ranges, &mut records)
                .with_context(|| format!("failed to read the events of batch {} again", plan.batch))?;
            fault::point("replay-read");
            let component = self.components.get(&plan.digest, &self.component)?;
            // The commit forgets outputs that are delivered. Were that not known before it, a second crash could leave a
            // batch of which only some partitions still have the outputs.
            self.plan_log.set_delivered(self.delivered)?;
            let input = self.batch_input(records, &component, &plan.older)?;
            times.keyed();
            self.start(plan, component, input, times)?;
            self.settle_all(source, observer)?;
        }
        self.begin_checkpoint()
    }

    fn replay(&mut self, source: &mut dyn Source, ranges: &[OffsetRange], records: &mut RecordBatch) -> Result<()> {
        let imported = ranges.iter().take_while(|range| range.input == InputId::IMPORTS).count();
        if imported > 0 {
            self.imports.replay(&ranges[..imported], records)?;
        }
        source.replay(&ranges[imported..], records)
    }
}
