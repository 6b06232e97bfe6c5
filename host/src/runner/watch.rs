//! [`Watch`]: sees every batch of a run: counts it, and acts when too much of it fails.

use super::events::RolledBack;
use super::judge::Verdict;
use super::rule_runner::RuleRunner;
use super::state::Running;
use crate::event::InputId;
use crate::host::{Observer, OlderRows, Outbox, Replaced, Requested, StateChoice, Swapped};
use crate::partition::PartitionReport;
use crate::plan::Plan;
use crate::progress::Progress;
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;

/// Sees every batch of a run.
pub(super) struct Watch {
    runner: Arc<RuleRunner>,
    running: Arc<Running>,
}

impl Watch {
    pub fn new(runner: Arc<RuleRunner>, running: Arc<Running>) -> Self {
        Watch { runner, running }
    }

    fn count(&self, plan: &Plan, reports: &[PartitionReport]) -> Verdict {
        let mut state = self.runner.lock();
        state.last_batch = Some(plan.batch);
        state.failures = 0;
        state.failed = None;
        state.totals.batches += 1;
        for report in reports {
            state.totals.add(report);
        }
        // What a batch that was committed before a restart did is not known.
        if reports.iter().any(|report| report.worked.is_some()) {
            state.keys = reports.iter().map(|report| report.rows_total).sum();
        }
        if let Some(positions) = &mut state.positions {
            for range in &plan.ranges {
                let InputId(input) = range.input;
                let partition = range.file.parse::<usize>().ok();
                let place =
                    positions.get_mut(input as usize).zip(partition).and_then(|(of, number)| of.get_mut(number));
                if let Some(place) = place {
                    *place = range.to;
                }
            }
        }
        let groups = reports.iter().map(|report| report.groups).sum();
        let failed = reports.iter().map(|report| report.failed_groups).sum();
        let verdict = state.judge.judge(plan.batch, groups, failed);
        if verdict == Verdict::Proven {
            state.trial = None;
        }
        verdict
    }
}

impl Observer for Watch {
    fn batch(&mut self, progress: &Progress, _: Option<(u64, u64)>) {
        {
            let mut state = self.runner.lock();
            state.totals.input_rows += progress.num_input_rows;
            state.totals.batch_seconds.observe(Duration::from_millis(progress.batch_duration));
            state.progress = Some(Arc::new(progress.clone()));
        }
        self.runner.shared.events.progress(self.runner.id(), progress);
    }

    fn committed(&mut self, plan: &Plan, reports: &[PartitionReport]) {
        match self.count(plan, reports) {
            Verdict::Fine => {}
            Verdict::Proven => self.runner.shared.events.proven(self.runner.id()),
            Verdict::RollBack(reason) => roll_back(&self.runner, &self.running, StateChoice::Keep, reason),
            Verdict::Quarantine(reason) => self.runner.quarantine(&self.running, reason),
        }
    }

    fn older_rows(&mut self, left: &OlderRows) {
        self.runner.lock().rows_left = left.total();
    }

    fn outbox(&mut self, outbox: &Outbox) {
        self.runner.lock().outbox = *outbox;
    }
}

/// Asks for the version before. States that it does not read stay with the one that wrote them.
fn roll_back(runner: &Arc<RuleRunner>, running: &Arc<Running>, choice: StateChoice, reason: String) {
    let Some(trial) = runner.lock().trial.clone() else { return };
    let (of_reply, of_run) = (Arc::clone(runner), Arc::clone(running));
    let activation = trial.before.activation(choice);
    let reply = move |swapped: Result<Swapped>| match swapped {
        Ok(swapped) => rolled_back(&of_reply, choice, swapped, reason),
        // Somebody has asked for another version meanwhile.
        Err(error) if error.is::<Replaced>() => {}
        Err(error) if choice == StateChoice::Keep => {
            tracing::info!(rule = of_reply.settings.name, "the version before cannot take over all states: {error:#}");
            roll_back(&of_reply, &of_run, StateChoice::Drain, reason);
        }
        Err(error) => of_reply.quarantine(&of_run, format!("{reason}, and it could not be rolled back: {error:#}")),
    };
    let replaced = running.control.request(Requested::new(activation, reply));
    replaced.into_iter().for_each(Requested::is_replaced);
}

fn rolled_back(runner: &RuleRunner, choice: StateChoice, swapped: Swapped, reason: String) {
    let rolled_back = {
        let mut state = runner.lock();
        let Some(trial) = state.trial.take() else { return };
        let from = std::mem::replace(&mut state.version, trial.before.clone());
        state.judge.activated(swapped.batch, false);
        state.rows_left = swapped.rows_left;
        state.totals.rollbacks += 1;
        RolledBack { from, to: trial.before, state: choice, swapped, reason }
    };
    let (name, reason) = (&runner.settings.name, &rolled_back.reason);
    tracing::warn!(rule = name, "rolled back to version {}: {reason}", rolled_back.to.label());
    runner.shared.events.rolled_back(runner.id(), &rolled_back);
}
