//! [`Output`]: what the rule writes.

use serde::Serialize;

/// One output: what all have in common, then what its kind adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Output {
    pub kind: &'static str,
    pub severity: &'static str,
    pub user_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case_id: Option<String>,
    /// Event time in milliseconds since 1970: of the event, or the deadline that passed. The deadline of `case.stale` is
    /// in processing time.
    pub at: i64,
    /// The transition, such as `T4`; rejections have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transition: Option<&'static str>,
    #[serde(flatten)]
    pub detail: Detail,
}

/// What each kind of output adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Detail {
    Suspicious {
        hv_count: u32,
        hv_total_minor: i64,
        cleared_count: u32,
        prior_case_id: Option<String>,
        guards: Vec<Guard>,
        evidence: Vec<String>,
        evidence_truncated: bool,
    },
    Cleared {
        reason: &'static str,
        cleared_count: u32,
    },
    SessionClosed {
        opened_at: i64,
        last_event_at: i64,
        txn_count: u32,
        alerts: u32,
        cleared_count: u32,
    },
    Flagged {
        reason: &'static str,
        hv_count: u32,
        hv_total_minor: i64,
        guards: Vec<Guard>,
        evidence: Vec<String>,
        evidence_truncated: bool,
    },
    CaseUpdated {
        new: u32,
        txn_count: u32,
        hv_count: u32,
    },
    CaseClosed {
        outcome: String,
        by: Option<String>,
    },
    CaseStale {
        flagged_at: i64,
    },
    DroppedLate {
        txn_id: String,
        closed_at: i64,
    },
    Rejected {
        control: String,
        stage: &'static str,
        reason: &'static str,
    },
}

/// A condition that held: why the machine moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Guard {
    pub name: &'static str,
    pub left: Operand,
    pub op: &'static str,
    pub right: Operand,
}

/// A side of a [`Guard`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Operand {
    Number(u32),
    Text(String),
    Texts(Vec<String>),
}

impl Detail {
    /// The kind of output, and how much it matters.
    pub(crate) fn kind_and_severity(&self) -> (&'static str, &'static str) {
        match self {
            Detail::Suspicious { .. } => ("alert.suspicious", "medium"),
            Detail::Cleared { .. } => ("alert.cleared", "low"),
            Detail::SessionClosed { .. } => ("session.closed", "info"),
            Detail::Flagged { .. } => ("alert.flagged", "high"),
            Detail::CaseUpdated { .. } => ("case.updated", "info"),
            Detail::CaseClosed { .. } => ("case.closed", "info"),
            Detail::CaseStale { .. } => ("case.stale", "medium"),
            Detail::DroppedLate { .. } => ("dropped.late_after_close", "info"),
            Detail::Rejected { .. } => ("control.rejected", "low"),
        }
    }
}
