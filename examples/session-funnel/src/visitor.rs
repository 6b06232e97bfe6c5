//! [`Visitor`]: the state of one user: the open session, and those that ended and may still be amended.

use crate::{FunnelEvent, Parameters, Report, Session};
use serde::{Deserialize, Serialize};

/// How many ended sessions are kept. With the default parameters at most four can end before the first is forgotten.
pub const CLOSED_MAX: usize = 8;

/// The state of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Visitor {
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Session>,
    /// The tombstones: ended sessions, oldest first.
    closed: Vec<Session>,
}

impl Visitor {
    /// The next deadline: the open session ends, or a tombstone goes. None when nothing is left. It has passed when the
    /// clock reads this time.
    pub fn deadline_ms(&self, parameters: &Parameters) -> Option<i64> {
        let idle = self.open.as_ref().map(|session| session.idle_deadline_ms(parameters.idle_ms));
        let tombstone = self.closed.first().map(|session| tombstone_deadline_ms(session, parameters));
        idle.into_iter().chain(tombstone).min()
    }

    /// Applies every deadline that has passed at this event time.
    pub fn advance(&mut self, now_ms: i64, parameters: &Parameters, reports: &mut Vec<Report>) {
        if let Some(session) = self.open.take_if(|session| session.idle_deadline_ms(parameters.idle_ms) <= now_ms) {
            session.close(reports);
            if self.closed.len() == CLOSED_MAX {
                self.closed.remove(0);
            }
            self.closed.push(session);
        }
        self.closed.retain(|session| now_ms < tombstone_deadline_ms(session, parameters));
    }

    /// Applies the deadlines up to the event, and then the event.
    pub fn apply(
        &mut self,
        user_id: &str,
        event: FunnelEvent,
        at_ms: i64,
        parameters: &Parameters,
        reports: &mut Vec<Report>,
    ) {
        if matches!(event, FunnelEvent::Unknown) {
            return;
        }
        self.advance(at_ms, parameters, reports);
        let idle_ms = parameters.idle_ms;
        if let Some(open) = self.open.as_mut().filter(|open| open.covers(at_ms, idle_ms)) {
            open.extend(at_ms);
            open.apply(event, at_ms, reports);
        } else if let Some(ended) = self.closed.iter_mut().rev().find(|ended| ended.covers(at_ms, idle_ms)) {
            ended.apply(event, at_ms, reports);
            reports.push(Report::Amended(ended.summary()));
        } else if self.knows_later_than(at_ms) {
            reports.push(Report::DroppedLate { at_ms });
        } else {
            self.open.insert(Session::open(user_id, at_ms)).apply(event, at_ms, reports);
        }
    }

    /// Whether the event, which no known session covers, lies before one of them.
    fn knows_later_than(&self, at_ms: i64) -> bool {
        self.open.iter().chain(&self.closed).any(|session| session.opened_after(at_ms))
    }
}

/// The end of the session and the time that it is remembered.
fn tombstone_deadline_ms(session: &Session, parameters: &Parameters) -> i64 {
    session.idle_deadline_ms(parameters.idle_ms) + parameters.tombstone_ms
}
