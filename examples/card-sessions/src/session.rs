//! [`Session`]: the state of one user.

use serde::{Deserialize, Serialize};

/// The open session of one user. Counts and times only: it is as large for the busiest user as for any other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Time of the earliest payment.
    pub start_ms: i64,
    /// Time of the latest payment.
    pub last_ms: i64,
    /// Payments.
    pub count: u64,
    /// High payments.
    pub hv_count: u64,
    /// Sum of all amounts.
    pub total_minor: i64,
    /// Whether the alert was written. Kept rather than worked out from the count, so that a lower limit in a new version
    /// neither marks sessions that had no alert nor writes a second one.
    pub flagged: bool,
}

impl Session {
    /// A session that begins at this time, without payments yet.
    pub fn open(time_ms: i64) -> Self {
        Session { start_ms: time_ms, last_ms: time_ms, count: 0, hv_count: 0, total_minor: 0, flagged: false }
    }

    /// Whether a payment at this time belongs to a later session.
    pub fn is_over(&self, time_ms: i64, gap_ms: i64) -> bool {
        time_ms.saturating_sub(self.last_ms) > gap_ms
    }

    /// Counts a payment. One that comes out of order may move the start back, but never the end: the session would time
    /// out before payments that it already holds.
    pub fn add(&mut self, time_ms: i64, amount_minor: i64, high: bool) {
        self.start_ms = self.start_ms.min(time_ms);
        self.last_ms = self.last_ms.max(time_ms);
        self.count += 1;
        self.hv_count += u64::from(high);
        self.total_minor = self.total_minor.saturating_add(amount_minor);
    }
}
