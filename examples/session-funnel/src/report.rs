//! [`Report`]: what the rule says about a visitor.

use crate::session::{Outcome, Reached, Stage};
use serde::Serialize;

/// One output.
#[derive(Debug, Clone, Serialize)]
pub struct Output {
    /// What happened.
    #[serde(flatten)]
    pub report: Report,
    /// To whom.
    pub user_id: String,
}

/// What happened to a visitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind")]
pub enum Report {
    /// A cart was paid. Said at once.
    #[serde(rename = "funnel.purchased")]
    Purchased {
        /// The session.
        session_id: String,
        /// When it was paid.
        at_ms: i64,
        /// The order.
        order: String,
        /// What was paid.
        value_minor: u64,
    },
    /// A session ended with a cart that was not paid.
    #[serde(rename = "funnel.abandoned")]
    Abandoned {
        /// The session.
        session_id: String,
        /// How far it came: `carted` or `checkout`.
        stage: Stage,
        /// The pieces in the cart.
        items: u64,
        /// What they cost together.
        value_minor: u64,
    },
    /// A session ended that had a single event.
    #[serde(rename = "session.bounced")]
    Bounced {
        /// The session.
        session_id: String,
        /// When that was.
        at_ms: i64,
    },
    /// A session ended. The last row about it, unless an event comes late.
    #[serde(rename = "session.summary")]
    Summary(Summary),
    /// An event came late for a session that had ended. Replaces the summary with the same id.
    #[serde(rename = "session.amended")]
    Amended(Summary),
    /// An event came so late that its session is not known any more. It counts nowhere.
    #[serde(rename = "dropped.late")]
    DroppedLate {
        /// The time of the event.
        at_ms: i64,
    },
}

/// A whole session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The session.
    pub session_id: String,
    /// When it began.
    pub from_ms: i64,
    /// Its last event.
    pub to_ms: i64,
    /// From the first event to the last.
    pub duration_ms: i64,
    /// All events, late ones included.
    pub events: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// How far it came.
    pub stage: Stage,
    /// When it came to each stage.
    pub reached: Reached,
    /// The pieces left in the cart.
    pub items: u64,
    /// What they cost together.
    pub value_minor: u64,
    /// The cart held more pieces than the rule lists, so that removals may be missing in it.
    pub cart_truncated: bool,
    /// What was paid.
    pub paid_minor: u64,
}
