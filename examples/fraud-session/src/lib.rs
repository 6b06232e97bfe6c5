//! A state machine for fraud: more than five high payments in one session are suspicious, more of them (or a new country,
//! or an analyst) open a case, and a human closes it.
//!
//! A session ends after 30 minutes without a payment, or when the suspicion is confirmed. No window can say this: neither
//! the length nor the end of a session is known beforehand. `README.md` has the diagram and the table.
//! - `parameters`: what can be set, checked by name.
//! - `event`: payments and analysts' controls.
//! - `state`: the five stages, and what is kept in each.
//! - `machine`: the transitions.
//! - `output`: what is written.

mod event;
mod machine;
mod output;
mod parameters;
mod state;

pub use event::{Event, Input, Payment};
pub use machine::{Machine, Transition};
pub use output::Output;
pub use parameters::{Limits, Parameters};
pub use state::{Case, Clock, Deadline, Evidence, Row, Session, Stage, Suspicion, Tombstone};

use keyfold_sdk::prelude::*;

/// The rule.
pub struct FraudSession {
    limits: Limits,
    observer: Box<dyn Fn(&Transition)>,
}

impl FraudSession {
    /// A rule that tells every transition to `observer`, so that a test sees them all. The host's rule tells nobody: a line
    /// in the log for each event would run into the host's limit of lines, and the outputs name their transition.
    pub fn observed(parameters: Parameters, observer: impl Fn(&Transition) + 'static) -> Result<Self> {
        Ok(FraudSession { limits: parameters.check()?, observer: Box::new(observer) })
    }
}

impl Rule for FraudSession {
    type Event<'e> = Event;
    type State = Row;
    type Output = Output;
    type Parameters = Parameters;
    const TIMEOUT: TimeoutKind = TimeoutKind::Either;

    fn new(parameters: Parameters) -> Result<Self> {
        FraudSession::observed(parameters, |_| ())
    }

    fn call(
        &self,
        user_id: &str,
        events: Events<Event>,
        state: &mut GroupState<Row>,
        out: &mut Outputs<Output>,
    ) -> Result<()> {
        let watermark_ms = state.current_watermark_ms()?;
        let now_ms = state.current_processing_time_ms();
        let mut row = state.get_option()?.unwrap_or_default();
        let mut machine = Machine { limits: &self.limits, user_id, now_ms, out, observer: &*self.observer };
        for event in events {
            let event = event?;
            let at = event.time_ms()?;
            row = machine.event(row, event.into_inner(), at)?;
        }
        // Also after events: their deadlines may lie before this batch's watermark, and nobody would come back for them
        // before it moves again. No event before the watermark can follow, so nothing is decided too early.
        row.stage = machine.pass_deadlines(row.stage, watermark_ms)?;
        keep(&row, row.stage.deadline(&self.limits), state)
    }
}

/// Stores the row with the one timeout of its stage, or nothing when that has none. Every call clears the timeout, so every call sets
/// it again.
pub fn keep<S: Serialize + serde::de::DeserializeOwned>(
    row: &S,
    deadline: Option<Deadline>,
    state: &mut GroupState<S>,
) -> Result<()> {
    let Some(deadline) = deadline else {
        if state.exists() {
            state.remove();
        }
        return Ok(());
    };
    state.update(row)?;
    // A deadline has passed at its own time, and the host fires strictly after the timeout: hence one less.
    let timeout_ms = deadline.at.saturating_sub(1);
    match deadline.clock {
        // Not before the watermark and above 0, else the host refuses it. A deadline that is still ahead is after the
        // watermark, so this moves only the deadlines of events with absurd times.
        Clock::Event => state.set_timeout_timestamp(timeout_ms.max(state.current_watermark_ms()?).max(1))?,
        // The state holds the absolute time, the host wants what is left of it: at least 1 ms.
        Clock::Wall => {
            let left_ms = timeout_ms.saturating_sub(state.current_processing_time_ms());
            state.set_timeout_duration(left_ms.max(1))?;
        }
    }
    Ok(())
}

#[cfg(feature = "rule")]
keyfold_sdk::export!(FraudSession);
