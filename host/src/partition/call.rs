//! [`Call`]: groups on their way into one call of the rule, and [`Taking`], where their outcomes go.

use super::{PartitionReport, Work};
use crate::evaluate::Evaluated;
use crate::event::PartitionId;
use crate::generation::{Generation, Mark};
use crate::group::{GROUP_TIMED_OUT, GroupColumns, item};
use crate::grouped::Grouped;
use crate::staged::{Calling, GroupBefore, Staged};
use crate::state::Loaded;
use crate::state::partition_db::Thresholds;
use crate::wasm::{CallError, Component};

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
    /// The row as the version that runs it sees it; none when it sees none.
    pub row: Option<Loaded>,
    /// The row that the table has, an imported one left out.
    pub stored: Option<Mark>,
    /// Whether the row is imported in this batch.
    pub imported: bool,
    /// The generation of what the call writes.
    pub generation: Generation,
    /// Whether its state has to be migrated before the call, or was.
    pub migration: Migration,
}

/// What a state needs before its group is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Migration {
    /// Nothing.
    None,
    /// The version that runs rewrites it.
    Needed,
    /// It was rewritten, or needs only another generation.
    Done,
}

impl Call {
    pub fn clear(&mut self) {
        self.columns.clear();
        self.loaded.clear();
        self.events.clear();
    }
}

/// Where outcomes go while the evaluator runs: a run without its evaluator.
pub(super) struct Taking<'r> {
    pub staged: &'r mut Staged,
    pub report: &'r mut PartitionReport,
    pub work: &'r Work,
    pub grouped: &'r Grouped,
    pub thresholds: Thresholds,
    pub partition: PartitionId,
    /// The version that is called.
    pub component: &'r Component,
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
            stored: loaded.stored,
            rewritten: loaded.imported || loaded.migration == Migration::Done,
            generation: loaded.generation,
            state_schema: self.component.description().state_schema,
            digest: self.component.digest(),
            state: item(&columns.states, &columns.state_ends, group),
            timed_out: columns.flags[group] & GROUP_TIMED_OUT != 0,
            was_due: timeout.is_some_and(|timeout| self.thresholds.is_due(timeout)),
        };
        let (start, end) = call.events[group];
        let numbers = &self.grouped.events[start as usize..end as usize];
        let input = &self.work.input;
        let events = || numbers.iter().map(|&number| input.dead_event(input.event(number))).collect();
        self.report.fuel += evaluated.fuel;
        let calling = Calling { work: self.work, partition: self.partition, component: self.component };
        match &evaluated.outcome {
            Ok(outcome) => self.staged.take(&before, outcome, calling, evaluated.fuel, events),
            Err(error) => {
                self.report.failed_groups += 1;
                self.staged.take_failure(&before, error, evaluated.fuel, calling, events());
            }
        }
    }

    /// Stages a group that cannot be called.
    pub fn fail(&mut self, call: &Call, group: usize, error: &CallError) {
        self.take(call, group, &Evaluated { outcome: Err(error), fuel: error.fuel });
    }
}
