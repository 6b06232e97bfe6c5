//! [`Machine`]: the transitions. [`Machine::step`] is the table of `README.md`; everything else does what it decides.

use crate::output::{Detail, Guard, Operand};
use crate::state::stable_id;
use crate::{Case, Clock, Event, Input, Limits, Output, Payment, Row, Session, Stage, Suspicion, Tombstone};
use keyfold_sdk::prelude::*;

/// What was taken: the names of the stages, and the label of the table, such as `T4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Transition {
    pub from: &'static str,
    pub to: &'static str,
    pub label: &'static str,
}

/// The machine during one call for one user.
pub struct Machine<'c> {
    /// What is allowed.
    pub limits: &'c Limits,
    /// The user.
    pub user_id: &'c str,
    /// Processing time.
    pub now_ms: i64,
    /// Where it writes.
    pub out: &'c mut Outputs<Output>,
    /// Who is told of each transition.
    pub observer: &'c dyn Fn(&Transition),
}

/// What makes the machine move: an event, or the one deadline of the stage.
enum Cause<'i> {
    Input(&'i Input),
    Due,
}

/// The label of a transition, and the stage that it leads to.
type Move = (&'static str, Stage);

impl Machine<'_> {
    /// Handles one event. A duplicate does nothing. Deadlines that have passed at the event's time come before it, so that
    /// it does not matter whether the watermark or the event was first.
    pub fn event(&mut self, mut row: Row, event: Event, at: i64) -> Result<Row> {
        if let Some(id) = &event.id
            && !row.remember(id, self.limits)
        {
            return Ok(row);
        }
        row.stage = self.pass_deadlines(row.stage, at)?;
        row.stage = self.step(row.stage, Cause::Input(&event.input), at)?;
        // What a closed case leaves may be forgotten at once, when the parameter says so.
        row.stage = self.pass_deadlines(row.stage, at)?;
        // Between two calls nothing is kept for an inactive user, so nothing may be kept between two events of one call.
        Ok(if row.stage == Stage::Inactive { Row::default() } else { row })
    }

    /// Takes the transitions of all deadlines that have passed at this event time and at the time of the batch.
    pub fn pass_deadlines(&mut self, mut stage: Stage, event_time_ms: i64) -> Result<Stage> {
        while let Some(deadline) = stage.deadline(self.limits) {
            let clock_ms = if deadline.clock == Clock::Event { event_time_ms } else { self.now_ms };
            if clock_ms < deadline.at {
                break;
            }
            stage = self.step(stage, Cause::Due, deadline.at)?;
        }
        Ok(stage)
    }

    /// One transition, or none.
    fn step(&mut self, stage: Stage, cause: Cause, at: i64) -> Result<Stage> {
        use Cause::{Due, Input as On};
        use Input::{AnomalyCleared, CaseClosed, PatternConfirmed, Payment};
        use Stage::{Closed, Flagged, Inactive, Suspicious, Watching};
        let from = stage.name();
        let (label, next) = match (stage, cause) {
            (Inactive, On(Payment(payment))) => ("T1", self.open(payment, at, None)),
            (Watching(session), On(Payment(payment))) => self.watch(session, payment, at)?, // T2, T3, T4
            (Watching(session), Due) => ("T5", self.end(session, at)?),
            (Suspicious(suspicion), On(Payment(payment))) => self.suspect(suspicion, payment, at)?, // T6, T7, T8
            (Suspicious(suspicion), On(PatternConfirmed)) => ("T8", self.flag(suspicion, "analyst", Vec::new(), at)?),
            (Suspicious(suspicion), On(AnomalyCleared)) => ("T9", self.clear(suspicion, "analyst", at)?),
            (Suspicious(suspicion), Due) => ("T9", self.clear(suspicion, "no_confirmation", at)?),
            (Flagged(case), On(Payment(payment))) => ("T10", self.add_to_case(case, payment, at)?),
            (Flagged(case), On(CaseClosed { outcome, by })) => ("T11", self.close(case, outcome, by.clone(), at)?),
            (Flagged(case), Due) => ("T12", self.remind(case, at)?),
            (Closed(tombstone), On(Payment(payment))) if at <= tombstone.closed_at => {
                ("T13", self.drop_late(tombstone, payment, at)?)
            }
            (Closed(tombstone), On(Payment(payment))) => ("T14", self.open(payment, at, Some(tombstone.case_id))),
            (Closed(_), Due) => ("T15", Inactive),
            (stage, On(control)) => return self.reject(stage, control, at),
            (Inactive, Due) => return Ok(Inactive), // It has no deadline.
        };
        (self.observer)(&Transition { from, to: next.name(), label });
        Ok(next)
    }

    /// T1, T14: a session begins.
    fn open(&self, payment: &Payment, at: i64, prior_case_id: Option<String>) -> Stage {
        let mut session = Session::open(self.user_id, at, prior_case_id);
        session.count(payment, at, self.limits);
        Stage::Watching(session)
    }

    /// T2 for a low payment, T3 for a high one, T4 for one high payment too many.
    fn watch(&mut self, mut session: Session, payment: &Payment, at: i64) -> Result<Move> {
        let (high, _) = session.count(payment, at, self.limits);
        if !high {
            return Ok(("T2", Stage::Watching(session)));
        }
        if session.hv_count <= self.limits.velocity_limit {
            return Ok(("T3", Stage::Watching(session)));
        }
        session.alerts = session.alerts.saturating_add(1);
        let detail = Detail::Suspicious {
            hv_count: session.hv_count,
            hv_total_minor: session.hv_total_minor,
            cleared_count: session.cleared_count,
            prior_case_id: session.prior_case_id.clone(),
            guards: vec![number_guard("hv_count", session.hv_count, ">", self.limits.velocity_limit)],
            evidence: session.evidence_ids(),
            evidence_truncated: session.evidence_truncated,
        };
        self.emit("T4", at, Some(&session.session_id), None, detail)?;
        // When the payment came late, the window begins at the latest one: a late event moves no deadline back.
        let suspicious_since = session.last_event_at;
        let confirm_deadline = suspicious_since.saturating_add(self.limits.confirm_window_ms);
        Ok(("T4", Stage::Suspicious(Suspicion { session, suspicious_since, confirm_deadline, confirm_hits: 0 })))
    }

    /// T5: the session is over. Only a session that was suspicious is told.
    fn end(&mut self, session: Session, at: i64) -> Result<Stage> {
        if session.alerts > 0 {
            let detail = Detail::SessionClosed {
                opened_at: session.opened_at,
                last_event_at: session.last_event_at,
                txn_count: session.txn_count,
                alerts: session.alerts,
                cleared_count: session.cleared_count,
            };
            self.emit("T5", at, Some(&session.session_id), None, detail)?;
        }
        Ok(Stage::Inactive)
    }

    /// T6 for a low payment, T7 for a high one, T8 for the last high payment needed or a new country.
    fn suspect(&mut self, mut suspicion: Suspicion, payment: &Payment, at: i64) -> Result<Move> {
        let countries = suspicion.session.countries.clone();
        let (high, new_country) = suspicion.session.count(payment, at, self.limits);
        suspicion.confirm_hits = suspicion.confirm_hits.saturating_add(u32::from(high));
        if suspicion.confirm_hits >= self.limits.confirm_extra {
            let guard = number_guard("confirm_hits", suspicion.confirm_hits, ">=", self.limits.confirm_extra);
            return Ok(("T8", self.flag(suspicion, "more_high_value", vec![guard], at)?));
        }
        if new_country {
            if !high {
                suspicion.session.keep_evidence(payment, at, self.limits);
            }
            let country = Operand::Text(payment.country.clone().unwrap_or_default());
            let guard = Guard { name: "country", left: country, op: "not in", right: Operand::Texts(countries) };
            return Ok(("T8", self.flag(suspicion, "new_country", vec![guard], at)?));
        }
        Ok((if high { "T7" } else { "T6" }, Stage::Suspicious(suspicion)))
    }

    /// T8: the suspicion is confirmed and a case is opened. It stays open until a human closes it.
    fn flag(&mut self, suspicion: Suspicion, reason: &'static str, guards: Vec<Guard>, at: i64) -> Result<Stage> {
        let session = suspicion.session;
        let case_id = stable_id("case", self.user_id, session.opened_at);
        let detail = Detail::Flagged {
            reason,
            hv_count: session.hv_count,
            hv_total_minor: session.hv_total_minor,
            guards,
            evidence: session.evidence_ids(),
            evidence_truncated: session.evidence_truncated,
        };
        self.emit("T8", at, Some(&session.session_id), Some(&case_id), detail)?;
        let case_due = self.now_ms.saturating_add(self.limits.case_ttl_ms);
        Ok(Stage::Flagged(Case {
            session,
            case_id,
            flagged_at: at,
            last_update_at: None,
            pending_updates: 0,
            case_due,
        }))
    }

    /// T9: the suspicion was unfounded. Counting begins anew, else the next high payment would raise it again; the evidence
    /// stays.
    fn clear(&mut self, suspicion: Suspicion, reason: &'static str, at: i64) -> Result<Stage> {
        let mut session = suspicion.session;
        session.hv_count = 0;
        session.hv_total_minor = 0;
        session.cleared_count = session.cleared_count.saturating_add(1);
        let detail = Detail::Cleared { reason, cleared_count: session.cleared_count };
        self.emit("T9", at, Some(&session.session_id), None, detail)?;
        Ok(Stage::Watching(session))
    }

    /// T10: one more payment in an open case. Payments are told together, the first at once.
    fn add_to_case(&mut self, mut case: Case, payment: &Payment, at: i64) -> Result<Stage> {
        case.session.count(payment, at, self.limits);
        case.pending_updates = case.pending_updates.saturating_add(1);
        let since_ms = case.last_update_at.map(|last| at.saturating_sub(last));
        if since_ms.is_none_or(|since_ms| since_ms >= self.limits.update_every_ms) {
            let (txn_count, hv_count) = (case.session.txn_count, case.session.hv_count);
            let detail = Detail::CaseUpdated { new: case.pending_updates, txn_count, hv_count };
            self.emit("T10", at, Some(&case.session.session_id), Some(&case.case_id), detail)?;
            case.last_update_at = Some(at);
            case.pending_updates = 0;
        }
        Ok(Stage::Flagged(case))
    }

    /// T11: an analyst closes the case.
    fn close(&mut self, case: Case, outcome: &str, by: Option<String>, at: i64) -> Result<Stage> {
        let outcome = outcome.to_owned();
        let detail = Detail::CaseClosed { outcome: outcome.clone(), by };
        self.emit("T11", at, Some(&case.session.session_id), Some(&case.case_id), detail)?;
        let tomb_due = self.now_ms.saturating_add(self.limits.closed_tombstone_ms);
        Ok(Stage::Closed(Tombstone { case_id: case.case_id, closed_at: at, outcome, tomb_due }))
    }

    /// T12: nobody has closed the case. One reminder, also when the host slept through several.
    fn remind(&mut self, mut case: Case, due: i64) -> Result<Stage> {
        let detail = Detail::CaseStale { flagged_at: case.flagged_at };
        self.emit("T12", due, Some(&case.session.session_id), Some(&case.case_id), detail)?;
        case.case_due = self.now_ms.saturating_add(self.limits.case_ttl_ms);
        Ok(Stage::Flagged(case))
    }

    /// T13: a payment from before the case was closed.
    fn drop_late(&mut self, tombstone: Tombstone, payment: &Payment, at: i64) -> Result<Stage> {
        let detail = Detail::DroppedLate { txn_id: payment.txn_id.clone(), closed_at: tombstone.closed_at };
        self.emit("T13", at, None, Some(&tombstone.case_id), detail)?;
        Ok(Stage::Closed(tombstone))
    }

    /// A control that the stage does not know is never dropped in silence, except the one that closed the case, again.
    fn reject(&mut self, stage: Stage, control: &Input, at: i64) -> Result<Stage> {
        let (session_id, case_id) = match &stage {
            Stage::Inactive => (None, None),
            Stage::Watching(session) => (Some(&session.session_id), None),
            Stage::Suspicious(suspicion) => (Some(&suspicion.session.session_id), None),
            Stage::Flagged(case) => (Some(&case.session.session_id), Some(&case.case_id)),
            Stage::Closed(tombstone) => (None, Some(&tombstone.case_id)),
        };
        let again = matches!((&stage, control), (Stage::Closed(tombstone), Input::CaseClosed { outcome, .. })
            if tombstone.closed_at == at && tombstone.outcome == *outcome);
        if !again {
            let reason = if let Input::Unusable { reason, .. } = control { *reason } else { "not in this stage" };
            let detail = Detail::Rejected { control: control.control().to_owned(), stage: stage.name(), reason };
            self.emit_with(None, at, session_id, case_id, detail)?;
        }
        Ok(stage)
    }

    fn emit(
        &mut self,
        label: &'static str,
        at: i64,
        session_id: Option<&String>,
        case_id: Option<&String>,
        detail: Detail,
    ) -> Result<()> {
        self.emit_with(Some(label), at, session_id, case_id, detail)
    }

    fn emit_with(
        &mut self,
        transition: Option<&'static str>,
        at: i64,
        session_id: Option<&String>,
        case_id: Option<&String>,
        detail: Detail,
    ) -> Result<()> {
        let (kind, severity) = detail.kind_and_severity();
        self.out.emit(&Output {
            kind,
            severity,
            user_id: self.user_id.to_owned(),
            session_id: session_id.cloned(),
            case_id: case_id.cloned(),
            at,
            transition,
            detail,
        })
    }
}

fn number_guard(name: &'static str, left: u32, op: &'static str, right: u32) -> Guard {
    Guard { name, left: Operand::Number(left), op, right: Operand::Number(right) }
}
