//! [`Call`]: groups on their way into one call of the rule, and [`Taking`], where their outcomes go.

use super::{PartitionReport, Work};
use crate::evaluate::Evaluated;
use crate::event::PartitionId;
use crate::group::{GROUP_TIMED_OUT, GroupColumns, item};
use crate::grouped::Grouped;
use crate::staged::{Calling, GroupBefore, Staged};
use crate::state::Loaded;
use crate::state::partition_db::Thresholds;

/// Groups on their way into one call.
#[derive(Default)]
pub(super) struct Call {
    pub columns: GroupColumns,
    pub loaded: Vec<LoadedGroup>,
    /// The events of each group, as a range of `Grouped::events`.
    pub events: Vec<(u32, u32)>,
}

/// The row of a group when it is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadedGroup {
    /// The row; none when the key has none.
    pub row: Option<Loaded>,
    /// Whether the key had a row before this batch, an imported one left out.
    pub existed: bool,
    /// Whether the row is imported in this batch.
    pub imported: bool,
}

/// Where outcomes go while the evaluator runs: a run without its evaluator.
pub(super) struct Taking<'r> {
    pub staged: &'r mut Staged,
    pub report: &'r mut PartitionReport,
    pub work: &'r Work,
    pub grouped: &'r Grouped,
    pub thresholds: Thresholds,
    pub partition: PartitionId,
}

impl Taking<'_> {
    /// Stages what became of one group.
    pub fn take(&mut self, call: &Call, group: usize, evaluated: &Evaluated<'_>) {
        let columns = &call.columns;
        let loaded = call.loaded[group];
        let timeout = loaded.row.and_then(|row| row.timeout);
        let before = GroupBefore {
            key: columns.key_of(group),
            loaded: loaded.row,
            existed: loaded.existed,
            imported: loaded.imported,
            state: item(&columns.states, &columns.state_ends, group),
            timed_out: columns.flags[group] & GROUP_TIMED_OUT != 0,
            was_due: timeout.is_some_and(|timeout| self.thresholds.is_due(timeout)),
        };
        let (start, end) = call.events[group];
        let numbers = &self.grouped.events[start as usize..end as usize];
        let input = &self.work.input;
        let events = || numbers.iter().map(|&number| input.dead_event(input.event(number))).collect();
        self.report.fuel += evaluated.fuel;
        let calling = Calling { work: self.work, partition: self.partition, component: &self.work.component };
        match &evaluated.outcome {
            Ok(outcome) => self.staged.take(&before, outcome, calling, evaluated.fuel, events),
            Err(error) => {
                self.report.failed_groups += 1;
                self.staged.take_failure(&before, error, evaluated.fuel, calling, events());
            }
        }
    }
}
