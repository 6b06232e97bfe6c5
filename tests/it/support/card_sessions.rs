//! The rows that the input of `keyfold gen card-sessions` must give, worked out without the host.
//!
//! A session of a user ends after thirty minutes without a payment. At the sixth high payment of a session there is one
//! `alert` row; when a session ends there is one `session` row. The rows do not depend on how the input is cut into
//! batches, so they are compared as a multiset.

use serde::Deserialize;
use std::collections::BTreeMap;

const GAP_MS: i64 = 30 * 60 * 1000;
const HIGH_MINOR: i64 = 50_000;
const ALERT_AT: u32 = 6;

/// Its one event lets the others' sessions end; its own session never does.
const END_USER: &str = "zzz-end";

/// Rows, each with how often it occurs.
pub type Rows = BTreeMap<Row, u32>;

/// One row, with all its fields and no others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Row {
    /// The sixth high payment of a session.
    Alert { user_id: String, session_start: i64, ts: i64, hv_count: u32 },
    /// A session that ended.
    Session { user_id: String, start: i64, end: i64, count: u32, hv_count: u32, total_minor: i64, flagged: bool },
}

#[derive(Deserialize)]
struct Payment {
    user_id: String,
    ts: i64,
    amount_minor: i64,
}

/// What the input gives. `files` are the texts of its files in their order; the payments in them are in time order.
pub fn expected_rows<'t>(files: impl IntoIterator<Item = &'t str>) -> Rows {
    let mut open: BTreeMap<String, Vec<Payment>> = BTreeMap::new();
    let mut rows = Rows::new();
    let mut latest_ms = i64::MIN;
    for line in files.into_iter().flat_map(str::lines) {
        let payment: Payment = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(payment.ts >= latest_ms, "the input is not in time order: {line}");
        latest_ms = payment.ts;
        let session = open.entry(payment.user_id.clone()).or_default();
        if session.last().is_some_and(|last| payment.ts - last.ts > GAP_MS) {
            close(&std::mem::take(session), &mut rows);
        }
        session.push(payment);
    }
    for (user, session) in &open {
        let last = session.last().expect("a session is never empty");
        if user != END_USER {
            assert!(latest_ms - last.ts > GAP_MS, "the session of {user} is still open at the end of the input");
            close(session, &mut rows);
        }
    }
    rows
}

/// The rows of outputs, one JSON object a line; lines of the user at the end are left out.
pub fn rows<'l>(lines: impl IntoIterator<Item = &'l str>) -> Rows {
    let mut rows = Rows::new();
    for line in lines {
        let row: Row = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let (Row::Alert { user_id, .. } | Row::Session { user_id, .. }) = &row;
        if user_id != END_USER {
            *rows.entry(row).or_default() += 1;
        }
    }
    rows
}

/// Panics with some of the differences unless the rows are the same.
pub fn assert_same_rows(found: &Rows, expected: &Rows) {
    let lacking = |of: &Rows, other: &Rows| -> Vec<String> {
        let differs = |(row, count): (&Row, &u32)| {
            let there = other.get(row).copied().unwrap_or(0);
            (there < *count).then(|| format!("{} x {row:?}", count - there))
        };
        of.iter().filter_map(differs).collect()
    };
    let (missing, extra) = (lacking(expected, found), lacking(found, expected));
    assert!(
        missing.is_empty() && extra.is_empty(),
        "{} rows are missing, such as {:#?}; {} rows are too many, such as {:#?}",
        missing.len(),
        &missing[..missing.len().min(5)],
        extra.len(),
        &extra[..extra.len().min(5)],
    );
}

fn close(payments: &[Payment], rows: &mut Rows) {
    let (first, last) = (&payments[0], &payments[payments.len() - 1]);
    let high: Vec<&Payment> = payments.iter().filter(|payment| payment.amount_minor >= HIGH_MINOR).collect();
    let hv_count = high.len() as u32;
    if let Some(sixth) = high.get(ALERT_AT as usize - 1) {
        add(
            rows,
            Row::Alert { user_id: first.user_id.clone(), session_start: first.ts, ts: sixth.ts, hv_count: ALERT_AT },
        );
    }
    add(
        rows,
        Row::Session {
            user_id: first.user_id.clone(),
            start: first.ts,
            end: last.ts,
            count: payments.len() as u32,
            hv_count,
            total_minor: payments.iter().map(|payment| payment.amount_minor).sum(),
            flagged: hv_count >= ALERT_AT,
        },
    );
}

fn add(rows: &mut Rows, row: Row) {
    *rows.entry(row).or_default() += 1;
}

#[test]
fn rows_of_a_small_input_are_the_ones_worked_out_by_hand() {
    let payment = |user: &str, minute: i64, amount: i64| {
        format!(r#"{{"id":"t","user_id":"{user}","ts":{},"amount_minor":{amount}}}"#, minute * 60_000)
    };
    let mut lines: Vec<String> = (0..6).map(|number| payment("a", number * 30, 50_000)).collect();
    lines.push(payment("b", 150, 49_999));
    lines.push(payment("a", 181, 1));
    lines.push(payment(END_USER, 2_000, 100));
    let (one, other) = lines.split_at(3);
    let expected = rows([
        r#"{"kind":"alert","user_id":"a","session_start":0,"ts":9000000,"hv_count":6}"#,
        r#"{"kind":"session","user_id":"a","start":0,"end":9000000,"count":6,"hv_count":6,"total_minor":300000,"flagged":true}"#,
        r#"{"kind":"session","user_id":"a","start":10860000,"end":10860000,"count":1,"hv_count":0,"total_minor":1,"flagged":false}"#,
        r#"{"kind":"session","user_id":"b","start":9000000,"end":9000000,"count":1,"hv_count":0,"total_minor":49999,"flagged":false}"#,
    ]);
    assert_same_rows(&expected_rows([one.join("\n").as_str(), other.join("\n").as_str()]), &expected);
}
