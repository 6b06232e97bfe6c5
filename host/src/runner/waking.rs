//! Waking: when a rule that is not open is opened, and when the alarm is to look again.

use super::RuleInput;
use super::alarm::Wake;
use super::rule_runner::RuleRunner;
use super::settings::Parked;
use super::state::State;
use crate::event::{Millis, Position};
use std::sync::{Arc, Weak};

impl RuleRunner {
    /// Opens the rule on a thread of its own when there is something to do; otherwise the alarm is set.
    pub(super) fn open_if_wanted(&self, state: &mut State) {
        if !self.is_to_open(state) {
            return self.set_alarm(state);
        }
        let Some(me) = self.me.upgrade() else { return };
        let running = state.begin();
        self.shared.count_running(true);
        let spawned = std::thread::Builder::new().name("rule".to_owned()).spawn({
            let running = Arc::clone(&running);
            move || me.live(running)
        });
        if let Err(error) = spawned {
            self.has_failed(state, &anyhow::Error::new(error).context("failed to start a thread"));
            state.running = None;
            self.shared.count_running(false);
            self.set_alarm(state);
        }
    }

    /// Whether there is something to do, and nothing against it.
    pub(super) fn is_to_open(&self, state: &State) -> bool {
        if state.is_closed {
            return false;
        }
        if state.requested.is_some() {
            return true;
        }
        let now = self.shared.clock.now();
        let is_waiting = state.failed.as_ref().is_some_and(|failed| now < failed.retry_at);
        if state.stopped.is_some() || state.held.is_some() || is_waiting {
            return false;
        }
        let Some(parked) = &state.parked else { return true };
        let is_due = parked.next_due.is_some_and(|due| due < now);
        state.is_wanted || state.failed.is_some() || is_due || self.has_more(state, parked)
    }

    /// Whether a stream has more than was read.
    fn has_more(&self, state: &State, parked: &Parked) -> bool {
        self.settings.inputs.iter().zip(&parked.positions).enumerate().any(|(number, (input, positions))| {
            let until = state.draining.as_ref().and_then(|until| until.get(number));
            input.log.ends().iter().zip(positions).enumerate().any(|(partition, (end, read))| {
                let end =
                    until.and_then(|until| until.get(partition)).map_or(end.line, |until| end.line.min(until.line));
                end > read.line
            })
        })
    }

    /// Events that no committed batch has read.
    pub(super) fn lag(&self, positions: &[Vec<Position>]) -> u64 {
        let of_input = |(input, positions): (&RuleInput, &Vec<Position>)| -> u64 {
            input.log.ends().iter().zip(positions).map(|(end, read)| end.line.saturating_sub(read.line)).sum()
        };
        self.settings.inputs.iter().zip(positions).map(of_input).sum()
    }

    /// The rule is not open: the alarm wakes it when a timeout is due or when it is to be tried again.
    pub(super) fn set_alarm(&self, state: &State) {
        let is_stopped = state.is_closed || state.stopped.is_some() || state.held.is_some();
        let due = state.parked.as_ref().and_then(|parked| Some(Millis(parked.next_due?.0.saturating_add(1))));
        let retry = state.failed.as_ref().map(|failed| failed.retry_at);
        match retry.or(due).filter(|_| !is_stopped) {
            Some(at) => {
                let me = Weak::clone(&self.me);
                let wake: Wake = Arc::new(move || me.upgrade().iter().for_each(|runner| runner.wake()));
                self.shared.alarm.set(self.number, at, wake);
            }
            None => self.shared.alarm.forget(self.number),
        }
    }
}
