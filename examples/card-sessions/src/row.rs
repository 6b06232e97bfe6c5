//! [`Row`]: what the rule writes.

use crate::Session;
use serde::Serialize;

/// One row. Times are event times in milliseconds since 1970.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Row {
    /// A session has more high payments than allowed; once for each session.
    Alert { user_id: String, session_start: i64, ts: i64, hv_count: u64 },
    /// A session is over.
    Session { user_id: String, start: i64, end: i64, count: u64, hv_count: u64, total_minor: i64, flagged: bool },
}

impl Row {
    pub(crate) fn alert(user_id: &str, time_ms: i64, session: &Session) -> Self {
        Row::Alert {
            user_id: user_id.to_owned(),
            session_start: session.start_ms,
            ts: time_ms,
            hv_count: session.hv_count,
        }
    }

    pub(crate) fn session(user_id: &str, session: &Session) -> Self {
        Row::Session {
            user_id: user_id.to_owned(),
            start: session.start_ms,
            end: session.last_ms,
            count: session.count,
            hv_count: session.hv_count,
            total_minor: session.total_minor,
            flagged: session.flagged,
        }
    }
}
