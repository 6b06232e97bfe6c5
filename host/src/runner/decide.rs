//! [`Decision`]: what a rule says to one event, or why it says nothing in time.

use super::rule_runner::RuleRunner;
use super::status::RunnerState;
use crate::clock::Stopwatch;
use crate::decisions::{Decided, Ticket};
use crate::event::InputId;
use crate::stream::{AppendError, AppendRequest, NewEvent, Placed};
use std::sync::Arc;
use std::time::Duration;

/// What a rule says to one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Where the event lies; none when it was there already.
    pub placed: Option<Placed>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an event that was to be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The rule has answered, or it has failed for this event.
    Decided(Decided),
    /// There is no answer in time. The event is put through the rule all the same.
    Undecided {
        /// A word for machines: `deadline`, `duplicate`, `paused`, `quarantined`, `held`, `failed`, `stopped`.
        reason: &'static str,
        /// More, for people.
        message: String,
    },
}

impl RuleRunner {
    /// Puts an event into a stream that the rule reads, and waits for what the rule says. The answer comes after the commit: it is
    /// never taken back. An error says that the event was not taken.
    pub fn decide(&self, input: InputId, event: NewEvent, deadline: Duration) -> Result<Decision, AppendError> {
        let waited = Stopwatch::start();
        let mut ticket: Option<(Placed, Ticket)> = None;
        let mut place = |placed: &[Placed]| {
            ticket = placed
                .first()
                .map(|&placed| (placed, self.decisions().register(input, placed.partition, placed.number.0)));
        };
        let log = Arc::clone(self.log_of(input));
        log.append(AppendRequest { events: vec![event], on_placed: Some(&mut place), ..AppendRequest::default() })?;
        let undecided =
            |placed, reason, message: String| Decision { placed, outcome: Outcome::Undecided { reason, message } };
        let Some((placed, ticket)) = ticket else {
            let message = "the event was there already".to_owned();
            return Ok(self.decided(undecided(None, "duplicate", message)));
        };
        let placed = Some(placed);
        if let Some((reason, message)) = self.cannot_decide() {
            return Ok(self.decided(undecided(placed, reason, message)));
        }
        let decision = match ticket.wait(deadline.saturating_sub(waited.elapsed())) {
            Ok(Some(decided)) => Decision { placed, outcome: Outcome::Decided(decided) },
            Ok(None) => {
                undecided(placed, "deadline", format!("there was no answer within {} ms", deadline.as_millis()))
            }
            Err(_) => undecided(placed, "failed", "the batch of the event failed, and is tried again".to_owned()),
        };
        Ok(self.decided(decision))
    }

    /// Why nothing is decided now.
    fn cannot_decide(&self) -> Option<(&'static str, String)> {
        let state = self.lock().says();
        match state {
            RunnerState::Running | RunnerState::Parked => None,
            RunnerState::Paused { by } => Some(("paused", format!("the rule was paused by {by}"))),
            RunnerState::Quarantined { reason } => Some(("quarantined", reason)),
            RunnerState::Held { quota } => Some(("held", format!("the tenant's quota {quota} is used up"))),
            RunnerState::Failed { error, .. } => Some(("failed", error)),
            RunnerState::Stopped => Some(("stopped", "the rule was stopped".to_owned())),
        }
    }
}
