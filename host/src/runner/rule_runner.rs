//! [`RuleRunner`]: one rule's life, as others see it: woken, paused, activated, asked.

use super::decide::{Decision, Outcome};
use super::judge::{Judge, Trial};
use super::runners::Runners;
use super::settings::{Parked, RuleVersion, RunnerSettings, Stopped};
use super::state::State;
use super::status::{RunnerStatus, Totals};
use crate::decisions::Decisions;
use crate::event::{BatchId, InputId, Position};
use crate::host::{Activation, Outbox, Requested, Swapped};
use crate::imports;
use crate::stream::{StreamLog, Subscription};
use anyhow::{Context, Result, ensure};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// One rule's life. While it is not open, it is a little memory.
pub struct RuleRunner {
    pub(super) settings: RunnerSettings,
    pub(super) shared: Arc<Runners>,
    decisions: Arc<Decisions>,
    state: Mutex<State>,
    changed: Condvar,
    /// Its number for the alarm.
    pub(super) number: u64,
    pub(super) me: Weak<RuleRunner>,
    /// As long as it lives, the streams wake it.
    _subscriptions: Vec<Subscription>,
}

impl RuleRunner {
    /// A rule, which is opened when there is something to do. `parked`: what it waits for, when it was closed in order; otherwise it is
    /// opened to find out.
    pub fn new(settings: RunnerSettings, shared: &Arc<Runners>, parked: Option<Parked>) -> Arc<Self> {
        let mut judge = Judge::new(settings.quarantine, settings.rollback);
        if let Some(trial) = &settings.trial {
            judge.activated(trial.since, true);
        }
        let waits = imports::waits(&settings.folder).unwrap_or(true);
        let state = State {
            running: None,
            version: settings.version.clone(),
            trial: settings.trial.clone(),
            judge,
            stopped: settings.stopped.clone(),
            held: None,
            is_closed: false,
            draining: None,
            is_drained: false,
            is_recorded: parked.is_some(),
            is_wanted: waits,
            requested: None,
            failed: None,
            failures: 0,
            since: shared.clock.now(),
            positions: parked.as_ref().map(|parked| parked.positions.clone()),
            last_batch: parked.as_ref().and_then(|parked| Some(BatchId(parked.next_batch.0.checked_sub(1)?))),
            keys: parked.as_ref().map_or(0, |parked| parked.keys),
            parked,
            rows_left: 0,
            outbox: Outbox::default(),
            progress: None,
            totals: Totals::default(),
        };
        let runner = Arc::new_cyclic(|me: &Weak<RuleRunner>| {
            let subscribe = |log: &Arc<StreamLog>| {
                let me = Weak::clone(me);
                log.subscribe(Arc::new(move || me.upgrade().iter().for_each(|runner| runner.wake())))
            };
            RuleRunner {
                _subscriptions: settings.inputs.iter().map(|input| subscribe(&input.log)).collect(),
                number: shared.number(),
                settings,
                shared: Arc::clone(shared),
                decisions: Arc::default(),
                state: Mutex::new(state),
                changed: Condvar::new(),
                me: Weak::clone(me),
            }
        });
        runner.wake();
        runner
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.settings.id
    }

    /// There may be something to do.
    pub fn wake(&self) {
        let mut state = self.lock();
        match &state.running {
            Some(running) => running.control.notify(),
            None => self.open_if_wanted(&mut state),
        }
    }

    /// States or events were put into the data folder, of which no stream tells.
    pub fn wake_for_imports(&self) {
        self.lock().is_wanted = true;
        self.wake();
    }

    /// Stops the rule at a batch boundary, and returns when it is closed. It keeps its state and its place in its inputs.
    pub fn pause(&self, by: &str) {
        let mut state = self.lock();
        state.stopped = Some(Stopped::Paused { by: by.to_owned() });
        self.stop_run(state);
    }

    /// Lets a rule go on that was paused, is quarantined, or has failed.
    pub fn resume(&self) {
        let mut state = self.lock();
        state.stopped = None;
        state.failed = None;
        state.failures = 0;
        state.judge.forgive();
        state.since = self.shared.clock.now();
        self.reconsider(state);
    }

    /// A quota of the tenant holds the rule back, or none does any more.
    pub fn hold(&self, quota: Option<&str>) {
        let mut state = self.lock();
        if state.held.as_deref() == quota {
            return;
        }
        state.held = quota.map(str::to_owned);
        state.since = self.shared.clock.now();
        match &state.running {
            Some(running) if quota.is_some() => running.stop(),
            _ => self.reconsider(state),
        }
    }

    /// Reads nothing after these positions, by input and partition: timeouts still fire until no key is left.
    pub fn drain(&self, until: Vec<Vec<Position>>) {
        let mut state = self.lock();
        state.draining = Some(until);
        state.is_wanted = true;
        match &state.running {
            // Opened again, it reads up to there.
            Some(running) => running.stop(),
            None => self.open_if_wanted(&mut state),
        }
    }

    /// Asks it to stop for good at the next batch boundary, and does not wait.
    pub fn ask_to_stop(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        if let Some(running) = &state.running {
            running.stop();
        }
    }

    /// Stops it for good, and returns when everything it has planned is committed and its files are closed.
    pub fn stop(&self) {
        self.ask_to_stop();
        self.stop_run(self.lock());
        self.shared.alarm.forget(self.number);
    }

    /// Runs another version from the next batch boundary on, and returns when it has taken effect. A rule that is not open is opened; one
    /// that is quarantined goes on with it, one that is paused stays so.
    pub fn activate(&self, activation: Activation) -> Result<Swapped> {
        let (send, replied) = sync_channel(1);
        let me = self.me.upgrade().context("the rule is gone")?;
        let version = RuleVersion::of(&activation);
        let requested = Requested::new(activation, move |swapped: Result<Swapped>| {
            if let Ok(swapped) = &swapped {
                me.activated(version, *swapped);
            }
            // Whoever asked may have gone.
            let _ = send.send(swapped);
        });
        let mut state = self.lock();
        ensure!(!state.is_closed, "the rule is stopped");
        let replaced = match &state.running {
            Some(running) => running.control.request(requested),
            None => {
                let replaced = state.requested.replace(requested);
                self.open_if_wanted(&mut state);
                replaced
            }
        };
        drop(state);
        replaced.into_iter().for_each(Requested::is_replaced);
        replied.recv().context("the rule could not be opened, or its run failed, before the activation took effect")?
    }

    /// What it does now, and has done since the process started.
    pub fn status(&self) -> RunnerStatus {
        let state = self.lock();
        RunnerStatus {
            state: state.says(),
            since: state.since,
            digest: state.version.digest().to_owned(),
            version: state.version.label().to_owned(),
            is_on_trial: state.trial.is_some(),
            lag: state.positions.as_ref().map_or(0, |positions| self.lag(positions)),
            positions: state.positions.clone(),
            next_due: state.parked.as_ref().and_then(|parked| parked.next_due),
            last_batch: state.last_batch,
            keys: state.keys,
            rows_left: state.rows_left,
            outbox: state.outbox,
            deciding: self.decisions.waiting(),
            progress: state.progress.clone(),
            totals: state.totals.clone(),
        }
    }

    /// What runs.
    pub fn version(&self) -> RuleVersion {
        self.lock().version.clone()
    }

    /// Below these positions, by input and partition, no batch will ever read again.
    pub fn needed(&self) -> Vec<Vec<Position>> {
        let none = || self.settings.inputs.iter().map(|input| vec![Position::default(); input.start.len()]).collect();
        self.lock().positions.clone().unwrap_or_else(none)
    }

    pub(super) fn decisions(&self) -> &Arc<Decisions> {
        &self.decisions
    }

    pub(super) fn log_of(&self, InputId(input): InputId) -> &Arc<StreamLog> {
        &self.settings.inputs[input as usize].log
    }

    /// Counts a decision.
    pub(super) fn decided(&self, decision: Decision) -> Decision {
        let totals = &mut self.lock().totals;
        match decision.outcome {
            Outcome::Decided(_) => totals.decided += 1,
            Outcome::Undecided { .. } => totals.undecided += 1,
        }
        decision
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those that wait for the end of the run.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Ends the run and waits for it.
    fn stop_run(&self, mut state: MutexGuard<'_, State>) {
        state.since = self.shared.clock.now();
        if let Some(running) = state.running.clone() {
            running.stop();
            let is_same = |state: &mut State| state.running.as_ref().is_some_and(|now| Arc::ptr_eq(now, &running));
            drop(self.changed.wait_while(state, is_same).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Opens the rule when it is closed and there is something to do.
    fn reconsider(&self, mut state: MutexGuard<'_, State>) {
        if state.running.is_none() {
            self.open_if_wanted(&mut state);
        }
    }

    /// An activation has taken effect.
    fn activated(&self, version: RuleVersion, swapped: Swapped) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.version, version);
        state.trial = Some(Trial { before, since: swapped.batch });
        state.judge.activated(swapped.batch, true);
        state.rows_left = swapped.rows_left;
        state.totals.activations += 1;
        if matches!(state.stopped, Some(Stopped::Quarantined { .. })) {
            state.stopped = None;
            state.since = self.shared.clock.now();
        }
    }
}

impl Drop for RuleRunner {
    fn drop(&mut self) {
        self.shared.alarm.forget(self.number);
    }
}
