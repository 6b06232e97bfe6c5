//! Follows the visits of each user to a shop, from the first page to the payment, and reports where they end.
//!
//! Everything here runs in event time, and the outputs for a user depend on that user's events and their order alone, not
//! on how they were cut into batches: an event first closes the session whose idle deadline it has passed, so it does
//! not matter whether the watermark had done so before.

mod cart;
mod event;
mod parameters;
mod report;
mod session;
mod visitor;

pub use cart::{CART_MAX, Cart};
pub use event::FunnelEvent;
pub use parameters::Parameters;
pub use report::{Output, Report, Summary};
pub use session::{Outcome, Session, Stage};
pub use visitor::{CLOSED_MAX, Visitor};

use keyfold_sdk::prelude::*;

/// The rule.
pub struct SessionFunnel {
    parameters: Parameters,
}

impl Rule for SessionFunnel {
    type Event<'e> = FunnelEvent;
    type State = Visitor;
    type Output = Output;
    type Parameters = Parameters;
    const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;

    fn new(parameters: Parameters) -> Result<Self> {
        parameters.check()?;
        Ok(SessionFunnel { parameters })
    }

    fn call(
        &self,
        user_id: &str,
        events: Events<FunnelEvent>,
        state: &mut GroupState<Visitor>,
        outputs: &mut Outputs<Output>,
    ) -> Result<()> {
        let watermark_ms = state.current_watermark_ms()?;
        let mut reports = Vec::new();
        let mut visitor = state.get_option()?.unwrap_or_default();
        for event in events {
            let event = event?;
            let at_ms = event.time_ms()?;
            visitor.apply(user_id, event.into_inner(), at_ms, &self.parameters, &mut reports);
        }
        // Only now: the events of this batch were let in by the watermark before, and may lie behind this one.
        visitor.advance(watermark_ms, &self.parameters, &mut reports);
        for report in reports {
            outputs.emit(&Output { user_id: user_id.to_owned(), report })?;
        }
        let Some(deadline_ms) = visitor.deadline_ms(&self.parameters) else {
            state.remove();
            return Ok(());
        };
        state.update(&visitor)?;
        // A deadline has passed when the watermark reads it, a timeout is due strictly after its time. What is left lies
        // after the watermark, so one millisecond less does not lie before it.
        state.set_timeout_timestamp(deadline_ms - 1)?;
        Ok(())
    }
}

keyfold_sdk::export!(SessionFunnel);
