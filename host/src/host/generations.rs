//! [`Generations`]: which generation is written, what becomes of the rows of earlier ones, and how far the sweep over them has come.
//! All of it is planned, so that a batch that runs again does the same.

use crate::event::{KEY_GROUPS, PartitionId};
use crate::generation::{Generation, Older, Treatment};
use crate::partition::PartitionReport;
use crate::plan::{Activated, Plan};
use crate::state::RowCounts;

/// So many rows the sweep of one batch looks at, roughly: it takes a few milliseconds.
const SWEEP_ROWS: u64 = 4096;

/// Which generation is written, and what becomes of the rows of earlier ones.
pub(super) struct Generations {
    current: Generation,
    older: Vec<Older>,
    /// The key group that the sweep goes on with. None when there is nothing to sweep.
    sweep_next: Option<u16>,
    /// Whether a batch with a part of the sweep is on its way. Only its end tells where the next part begins.
    is_sweeping: bool,
    /// Rows that the sweep could not migrate, since the activation or since the host was opened.
    failed: u64,
    /// The rows of each partition.
    counts: Vec<RowCounts>,
}

/// What is left of earlier generations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OlderRows {
    /// Rows that are to be migrated.
    pub to_migrate: u64,
    /// Rows that count as absent and are to be deleted.
    pub to_forget: u64,
    /// Rows whose keys are run by an earlier version.
    pub to_drain: u64,
    /// Rows whose migration failed in the sweep, since the activation or since the host was opened.
    pub failed: u64,
}

impl OlderRows {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.to_migrate + self.to_forget + self.to_drain
    }
}

impl Generations {
    /// As the last plan left it, or the activation after it.
    pub fn new(last: Option<&Plan>, activated: Option<&Activated>, counts: Vec<RowCounts>) -> Self {
        let mut generations = Generations {
            current: Generation::default(),
            older: Vec::new(),
            sweep_next: None,
            is_sweeping: false,
            failed: 0,
            counts,
        };
        if let Some(last) = last {
            generations.planned(last);
            generations.is_sweeping = false;
        }
        if let Some(activated) = activated {
            generations.activate(activated);
        }
        generations
    }

    /// An activation came after the last plan.
    pub fn activate(&mut self, activated: &Activated) {
        self.current = activated.generation;
        self.older = activated.older.clone();
        self.sweep_next = activated.sweeps.then_some(0);
        self.is_sweeping = false;
        self.failed = 0;
    }

    /// A plan was written.
    pub fn planned(&mut self, plan: &Plan) {
        self.current = plan.generation;
        self.older = plan.older.clone();
        self.sweep_next = plan.sweep.map(|(from, _)| from);
        self.is_sweeping |= plan.sweep.is_some_and(|(from, to)| from < to);
    }

    /// A partition has committed a batch.
    pub fn reported(&mut self, PartitionId(partition): PartitionId, report: &PartitionReport) {
        self.counts[partition as usize] = report.counts.clone();
    }

    /// All partitions have committed a batch.
    pub fn committed(&mut self, plan: &Plan, reports: &[PartitionReport]) {
        // A batch from before an activation may still write rows of a generation that has none yet, and its sweep was another one.
        if plan.generation != self.current {
            return;
        }
        self.prune();
        let Some((from, to)) = plan.sweep.filter(|(from, to)| from < to) else { return };
        self.is_sweeping = false;
        self.failed += reports.iter().map(|report| report.swept.failed).sum::<u64>();
        if self.sweep_next != Some(from) {
            return;
        }
        // A partition that had committed the batch before a restart does not know any more how far it came.
        let reached = reports.iter().map(|report| report.swept.to.unwrap_or(from)).min().unwrap_or(to);
        self.sweep_next = (u32::from(reached) < KEY_GROUPS).then_some(reached);
        if reports.iter().any(|report| report.swept.is_given_up) {
            tracing::error!("the migration fails for many states: the sweep is given up, and they stay as they are");
            self.sweep_next = None;
        }
    }

    /// The generation that is written.
    pub fn current(&self) -> Generation {
        self.current
    }

    /// What becomes of rows of earlier generations.
    pub fn older(&self) -> &[Older] {
        &self.older
    }

    /// What the next batch sweeps. It is nothing while another part is on its way, but how far the sweep has come is always said.
    pub fn sweep(&self) -> Option<(u16, u16)> {
        let is_swept = |older: &Older| matches!(older.treatment, Treatment::Migrate | Treatment::Forget);
        let next = self.sweep_next.filter(|_| self.older.iter().any(is_swept))?;
        if self.is_sweeping {
            return Some((next, next));
        }
        let rows_of_group = (self.all_counts().total() / u64::from(KEY_GROUPS)).max(1);
        let groups = (SWEEP_ROWS / rows_of_group).clamp(1, u64::from(KEY_GROUPS)) as u32;
        Some((next, (u32::from(next) + groups).min(KEY_GROUPS) as u16))
    }

    /// Whether a batch without events has something to sweep.
    pub fn has_to_sweep(&self) -> bool {
        self.sweep().is_some_and(|(from, to)| from < to)
    }

    /// The rows of all partitions.
    pub fn all_counts(&self) -> RowCounts {
        self.counts.iter().fold(RowCounts::default(), RowCounts::join)
    }

    /// What is left of earlier generations.
    pub fn left(&self) -> OlderRows {
        let counts = self.all_counts();
        let mut left = OlderRows { failed: self.failed, ..OlderRows::default() };
        for Older { generations, treatment } in &self.older {
            let rows: u64 = generations.iter().map(|generation| counts.of_generation(*generation)).sum();
            match treatment {
                Treatment::Migrate => left.to_migrate += rows,
                Treatment::Forget => left.to_forget += rows,
                Treatment::Drain(_) => left.to_drain += rows,
            }
        }
        left
    }

    /// Rows of an earlier generation become fewer and never more once all batches that were planned with it are committed, so what has
    /// none then is over.
    pub fn prune(&mut self) {
        if self.older.is_empty() {
            return;
        }
        let counts = self.all_counts();
        for older in &mut self.older {
            older.generations.retain(|generation| counts.of_generation(*generation) > 0);
        }
        self.older.retain(|older| !older.generations.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BatchId, Millis};
    use crate::generation::Mark;
    use crate::limits::Limits;
    use crate::partition::Swept;

    fn plan(generation: u8, sweep: Option<(u16, u16)>) -> Plan {
        Plan {
            batch: BatchId(0),
            ranges: Vec::new(),
            time: Millis(0),
            watermark: None,
            late_watermark: None,
            event_times_max: Vec::new(),
            seed: String::new(),
            digest: String::new(),
            parameters: String::new(),
            limits: Limits::default(),
            batch_query: false,
            generation: Generation(generation),
            older: Vec::new(),
            sweep,
        }
    }

    #[test]
    fn a_sweep_from_before_an_activation_is_no_part_of_the_one_that_it_begins() {
        let mut counts = RowCounts::default();
        counts.add(Mark { generation: Generation(1), schema: Some(1) });
        // The last part of a sweep runs, and has nothing left to do, when another version is activated.
        let before = plan(1, Some((0, 16)));
        let mut generations = Generations::new(Some(&before), None, vec![counts]);
        let older = Older { generations: vec![Generation(1)], treatment: Treatment::Migrate };
        generations.activate(&Activated {
            after: Some(BatchId(0)),
            digest: String::new(),
            generation: Generation(2),
            older: vec![older],
            sweeps: true,
        });
        let swept = |to| PartitionReport { swept: Swept { to: Some(to), ..Swept::default() }, ..Default::default() };
        generations.committed(&before, &[swept(16)]);
        assert_eq!(generations.sweep().map(|(from, _)| from), Some(0));
        let (from, to) = generations.sweep().expect("rows are to be migrated");
        generations.committed(&plan(2, Some((from, to))), &[swept(16)]);
        assert_eq!(generations.sweep().map(|(from, _)| from), Some(16));
    }
}
