//! [`RestoredPlans`]: which plans a restored folder gets, and how far it has read its files.

use super::catalogue::Catalogue;
use super::fault::Fault;
use super::layout::Object;
use super::partition_restore::PartitionRestored;
use super::positions::advance;
use crate::event::{BatchId, Positions};
use crate::plan::Plan;
use crate::source::stdin::spool_number;
use anyhow::{Result, bail};

/// The plans of a restored folder.
pub(super) struct RestoredPlans {
    /// In order, without gaps.
    pub plans: Vec<Plan>,
    /// How far they have read, and all plans before them.
    pub positions: Positions,
    /// Plans that are left out: one before them is damaged or missing, or they read standard input.
    pub left_out: Vec<BatchId>,
    /// The greatest number of a file that standard input was copied to.
    pub spool: Option<u64>,
    /// Objects that made plans be left out.
    pub faults: Vec<Fault>,
}

impl RestoredPlans {
    /// Chooses them for partitions that were restored. `to`: no plan after this batch is wanted.
    pub fn choose(
        catalogue: &Catalogue,
        partitions: &[PartitionRestored],
        delivered: Option<BatchId>,
        to: Option<Option<BatchId>>,
    ) -> Result<Self> {
        let after = |batch: Option<BatchId>| batch.map_or(0, |batch| batch.0 + 1);
        let ends = || partitions.iter().map(|partition| after(partition.batch));
        let (lowest, highest) = (ends().min().unwrap_or(0), ends().max().unwrap_or(0));
        // What the host asks for when it recovers, and the last plan, which the next one follows.
        let first = lowest.min(after(delivered)).min(highest.saturating_sub(1));
        let end = to.map_or(u64::MAX, after);
        let mut chosen = RestoredPlans {
            plans: catalogue.plans.range(..BatchId(first)).map(|(_, plan)| plan.clone()).collect(),
            positions: Positions::new(),
            left_out: Vec::new(),
            spool: None,
            faults: Vec::new(),
        };
        let gap = (1..).zip(chosen.plans.iter().rev()).position(|(back, plan)| plan.batch.0 + back != first);
        chosen.plans.drain(..gap.map_or(0, |gap| chosen.plans.len() - gap));
        let last = catalogue.plans.keys().next_back().copied();
        for batch in (first..end).map(BatchId) {
            let Some(plan) = catalogue.plans.get(&batch) else {
                chosen.end_before(batch, highest, last, catalogue)?;
                break;
            };
            let reads_spool = plan.ranges.iter().any(|range| spool_number(&range.file).is_some());
            if reads_spool && batch.0 >= lowest {
                chosen.end_at_spool(batch, highest, last)?;
                break;
            }
            chosen.plans.push(plan.clone());
        }
        if end < u64::MAX {
            chosen.left_out.clear();
        }
        chosen.read_positions(catalogue)?;
        Ok(chosen)
    }

    /// There is no plan of this batch that could be used.
    fn end_before(&mut self, batch: BatchId, highest: u64, last: Option<BatchId>, catalogue: &Catalogue) -> Result<()> {
        let object = Object::Offsets(batch);
        let is_damaged = catalogue.faults.iter().any(|fault| fault.object == object.name());
        let what = if is_damaged { "damaged" } else { "missing" };
        if batch.0 < highest {
            let before = fork_before(batch);
            bail!("{} is {what}, and that batch has to be run or delivered again{before}", object.name());
        }
        self.left_out = (batch.0 + 1..=last.map_or(0, |last| last.0)).map(BatchId).collect();
        let is_end = self.left_out.is_empty() && !is_damaged;
        if !is_end && !is_damaged {
            self.faults.push(Fault::missing(&object));
        }
        Ok(())
    }

    /// This batch reads standard input, which is gone.
    fn end_at_spool(&mut self, batch: BatchId, highest: u64, last: Option<BatchId>) -> Result<()> {
        if batch.0 < highest {
            let before = fork_before(batch);
            bail!(
                "a part of the state has to run batch {batch} again, which read standard input, and that is gone{before}"
            );
        }
        self.left_out = (batch.0..=last.map_or(0, |last| last.0)).map(BatchId).collect();
        Ok(())
    }

    fn read_positions(&mut self, catalogue: &Catalogue) -> Result<()> {
        let Some(last) = self.plans.last().map(|plan| plan.batch) else { return Ok(()) };
        // From the newest one from which plans lead on without a gap; or from the first plan.
        let bases = catalogue.positions.range(..=last).rev();
        let bases = bases.map(|(batch, read)| (batch.0 + 1, read.to_positions())).chain([(0, Positions::new())]);
        let mut gap = Object::Positions(last);
        for (next, mut positions) in bases {
            if let Some(missing) = (next..=last.0).map(BatchId).find(|batch| !catalogue.plans.contains_key(batch)) {
                if next > 0 {
                    gap = Object::Offsets(missing);
                }
                continue;
            }
            // Half open: there may be no plan after the positions.
            for (_, plan) in catalogue.plans.range(BatchId(next)..BatchId(last.0 + 1)) {
                advance(&mut positions, &plan.ranges);
            }
            self.spool = positions.keys().filter_map(|(_, file)| spool_number(file)).max();
            positions.retain(|(_, file), _| spool_number(file).is_none());
            self.positions = positions;
            return Ok(());
        }
        bail!(
            "{} is damaged or missing, and without it nobody can tell how far files were read{}",
            gap.name(),
            match gap {
                Object::Offsets(batch) => fork_before(batch),
                _ => String::new(),
            }
        );
    }
}

/// What to do about a plan that cannot be had.
fn fork_before(batch: BatchId) -> String {
    batch
        .0
        .checked_sub(1)
        .map_or_else(String::new, |before| format!(": restore to the batch before with --batch {before} --fork"))
}
