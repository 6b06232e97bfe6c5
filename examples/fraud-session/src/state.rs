//! [`Row`]: the state of one user. [`Stage`]: the five stages and what is kept in each.
//!
//! Times are event times in milliseconds since 1970, except those that say they are processing times.

use crate::{Limits, Payment};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;

/// What is stored for one user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The stage, and what it needs.
    #[serde(flatten)]
    pub stage: Stage,
    /// The newest ids, oldest first, `ids_cap` at most. They outlive a stage, so that a payment of the last session that is
    /// delivered again does not count in the next one.
    pub ids: VecDeque<String>,
    /// How many events were dropped because their id was known: all that a duplicate changes.
    pub duplicates: u32,
}

/// The stages of a user's life.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "lowercase")]
pub enum Stage {
    /// No session: no row is stored.
    #[default]
    #[serde(skip)]
    Inactive,
    /// A session that is not suspicious.
    Watching(Session),
    /// A session with too many high payments, which waits to be confirmed.
    Suspicious(Suspicion),
    /// A case is open.
    Flagged(Case),
    /// The case is closed. What is left keeps a late payment of the case from opening a session.
    Closed(Tombstone),
}

/// Payments without a pause as long as the session gap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Made of the user and the time of the first payment.
    pub session_id: String,
    /// Time of the first payment.
    pub opened_at: i64,
    /// Time of the latest payment. A late payment does not move it back.
    pub last_event_at: i64,
    /// Payments.
    pub txn_count: u32,
    /// High payments since the session began or was last cleared.
    pub hv_count: u32,
    /// The sum of those.
    pub hv_total_minor: i64,
    /// The first countries of the session, `COUNTRIES_CAP` at most.
    pub countries: Vec<String>,
    /// How often it became suspicious.
    pub alerts: u32,
    /// How often the suspicion was cleared.
    pub cleared_count: u32,
    /// The case that was closed before this session, if that is still remembered.
    pub prior_case_id: Option<String>,
    /// The newest high payments and those from a country that decided, oldest first, `evidence_cap` at most.
    pub evidence: VecDeque<Evidence>,
    /// Whether older evidence was dropped.
    pub evidence_truncated: bool,
}

/// One payment, as far as an analyst needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Evidence {
    pub id: String,
    pub at: i64,
    pub amount_minor: i64,
    pub country: Option<String>,
    pub device: Option<String>,
}

/// A suspicious session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspicion {
    /// The session goes on.
    #[serde(flatten)]
    pub session: Session,
    /// When it became suspicious.
    pub suspicious_since: i64,
    /// Until when it may be confirmed. Later payments do not extend it.
    pub confirm_deadline: i64,
    /// High payments since it became suspicious.
    pub confirm_hits: u32,
}

/// An open case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The session that was confirmed; it goes on counting.
    #[serde(flatten)]
    pub session: Session,
    /// Made of the user and the time of the session's first payment.
    pub case_id: String,
    /// When it was opened.
    pub flagged_at: i64,
    /// Time of the payment that was last told.
    pub last_update_at: Option<i64>,
    /// Payments since then.
    pub pending_updates: u32,
    /// Processing time of the next reminder.
    pub case_due: i64,
}

/// What is left of a closed case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The case.
    pub case_id: String,
    /// Time of the control that closed it. Payments up to here belong to the case.
    pub closed_at: i64,
    /// What the analyst found.
    pub outcome: String,
    /// Processing time at which it is forgotten.
    pub tomb_due: i64,
}

/// When something happens without an event. It has passed when its clock shows this time or a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Deadline {
    pub clock: Clock,
    pub at: i64,
}

/// Sessions live in event time. What waits for humans lives in processing time, also when no events come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Clock {
    Event,
    Wall,
}

/// More countries than this in one session are suspicious in any reading; those after them count as new each time.
pub const COUNTRIES_CAP: usize = 8;

impl Row {
    /// Whether this id is new, and remembers it if it is.
    pub(crate) fn remember(&mut self, id: &str, limits: &Limits) -> bool {
        if self.ids.iter().any(|known| known == id) {
            self.duplicates = self.duplicates.saturating_add(1);
            return false;
        }
        self.ids.push_back(id.to_owned());
        while self.ids.len() > limits.ids_cap {
            self.ids.pop_front();
        }
        true
    }
}

impl Stage {
    /// The name, as the state, the outputs and the diagram have it (there with a capital).
    pub fn name(&self) -> &'static str {
        match self {
            Stage::Inactive => "inactive",
            Stage::Watching(_) => "watching",
            Stage::Suspicious(_) => "suspicious",
            Stage::Flagged(_) => "flagged",
            Stage::Closed(_) => "closed",
        }
    }

    /// The one deadline of the stage.
    pub fn deadline(&self, limits: &Limits) -> Option<Deadline> {
        let (clock, at) = match self {
            Stage::Inactive => return None,
            Stage::Watching(session) => (Clock::Event, session.last_event_at.saturating_add(limits.session_gap_ms)),
            Stage::Suspicious(suspicion) => (Clock::Event, suspicion.confirm_deadline),
            Stage::Flagged(case) => (Clock::Wall, case.case_due),
            Stage::Closed(tombstone) => (Clock::Wall, tombstone.tomb_due),
        };
        Some(Deadline { clock, at })
    }
}

impl Session {
    /// A session that begins at this time, without payments yet.
    pub(crate) fn open(user_id: &str, at: i64, prior_case_id: Option<String>) -> Self {
        Session {
            session_id: stable_id("session", user_id, at),
            opened_at: at,
            last_event_at: at,
            txn_count: 0,
            hv_count: 0,
            hv_total_minor: 0,
            countries: Vec::new(),
            alerts: 0,
            cleared_count: 0,
            prior_case_id,
            evidence: VecDeque::new(),
            evidence_truncated: false,
        }
    }

    /// Counts a payment. Returns whether it is high, and whether its country is new in this session.
    pub(crate) fn count(&mut self, payment: &Payment, at: i64, limits: &Limits) -> (bool, bool) {
        self.last_event_at = self.last_event_at.max(at);
        self.txn_count = self.txn_count.saturating_add(1);
        let high = payment.amount_minor >= limits.high_value_minor;
        if high {
            self.hv_count = self.hv_count.saturating_add(1);
            self.hv_total_minor = self.hv_total_minor.saturating_add(payment.amount_minor);
            self.keep_evidence(payment, at, limits);
        }
        let new_country = payment.country.as_ref().filter(|country| !self.countries.contains(country));
        if let Some(country) = new_country
            && self.countries.len() < COUNTRIES_CAP
        {
            self.countries.push(country.clone());
        }
        (high, new_country.is_some())
    }

    /// Keeps a payment as evidence; the oldest goes when there is too much.
    pub(crate) fn keep_evidence(&mut self, payment: &Payment, at: i64, limits: &Limits) {
        let Payment { txn_id, amount_minor, country, device } = payment.clone();
        self.evidence.push_back(Evidence { id: txn_id, at, amount_minor, country, device });
        while self.evidence.len() > limits.evidence_cap {
            self.evidence.pop_front();
            self.evidence_truncated = true;
        }
    }

    /// The ids of the evidence.
    pub(crate) fn evidence_ids(&self) -> Vec<String> {
        self.evidence.iter().map(|evidence| evidence.id.clone()).collect()
    }
}

/// An id that is the same on every re-run and in every host: 128 bits of a hash, as hexadecimal digits. The time stands
/// before the user, whose name may hold any character, so that no two inputs have the same text.
pub(crate) fn stable_id(what: &str, user_id: &str, opened_at: i64) -> String {
    let digest = Sha256::digest(format!("{what}/{opened_at}/{user_id}"));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
