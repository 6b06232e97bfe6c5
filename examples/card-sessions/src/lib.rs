//! Sessions of card payments: one row for each session, and an alert at the sixth high payment in one session.
//!
//! A session ends when its user pays nothing for 30 minutes: seen at the user's next payment, or by a timeout when event
//! time has passed that point. The rows do not depend on how the input is cut into batches.

mod parameters;
mod row;
mod session;

pub use parameters::Parameters;
pub use row::Row;
pub use session::Session;

use keyfold_sdk::prelude::*;

/// The rule.
pub struct CardSessions {
    parameters: Parameters,
}

/// What the rule reads of a payment. The user comes as the key and the time as the event time, so neither is decoded again.
#[derive(Deserialize)]
pub struct Payment {
    amount_minor: i64,
}

impl Rule for CardSessions {
    type Event<'e> = Payment;
    type State = Session;
    type Output = Row;
    type Parameters = Parameters;
    const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;

    fn new(parameters: Parameters) -> Result<Self> {
        parameters.check()?;
        Ok(CardSessions { parameters })
    }

    fn call(
        &self,
        user_id: &str,
        payments: Events<Payment>,
        state: &mut GroupState<Session>,
        out: &mut Outputs<Row>,
    ) -> Result<()> {
        let mut open = state.get_option()?;
        if state.has_timed_out() {
            state.remove();
            return open.map_or(Ok(()), |session| out.emit(&Row::session(user_id, &session)));
        }
        for payment in payments {
            let payment = payment?;
            self.handle(user_id, payment.time_ms()?, payment.amount_minor, &mut open, out)?;
        }
        let Some(session) = open else { return Ok(()) };
        state.update(&session)?;
        // A timeout may not lie before the watermark, and after disorder the end of the session can.
        let end_ms = session.last_ms.saturating_add(self.parameters.session_gap_ms);
        state.set_timeout_timestamp(end_ms.max(state.current_watermark_ms()?))?;
        Ok(())
    }
}

impl CardSessions {
    fn handle(
        &self,
        user_id: &str,
        time_ms: i64,
        amount_minor: i64,
        open: &mut Option<Session>,
        out: &mut Outputs<Row>,
    ) -> Result<()> {
        if let Some(over) = open.take_if(|session| session.is_over(time_ms, self.parameters.session_gap_ms)) {
            out.emit(&Row::session(user_id, &over))?;
        }
        let session = open.get_or_insert_with(|| Session::open(time_ms));
        session.add(time_ms, amount_minor, amount_minor >= self.parameters.high_value_minor);
        if session.hv_count > self.parameters.hv_count_max && !session.flagged {
            session.flagged = true;
            out.emit(&Row::alert(user_id, time_ms, session))?;
        }
        Ok(())
    }
}

keyfold_sdk::export!(CardSessions);
