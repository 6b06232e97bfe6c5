//! [`Reference`]: the rows that the input of `keyfold gen card-sessions` must give, worked out without the host.
//!
//! A session of a user ends after thirty minutes without a payment. At the sixth high payment of a session there is one
//! `alert` row; when a session ends there is one `session` row. The rows do not depend on how the input is cut into
//! batches, so they are compared as a multiset.
//!
//! The tests and `cargo xtask bench` share this file, so that what is measured is held to what is tested.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

const GAP_MS: i64 = 30 * 60 * 1000;
const HIGH_MINOR: i64 = 50_000;
const ALERT_AT: u32 = 6;

/// Its one event lets the others' sessions end; its own session never does.
const END_USER: &str = "zzz-end";

/// Rows, each with how often it occurs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows(BTreeMap<Row, u32>);

/// One row, with all its fields and no others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Row {
    /// The sixth high payment of a session.
    Alert { user_id: String, session_start: i64, ts: i64, hv_count: u32 },
    /// A session that ended.
    Session { user_id: String, start: i64, end: i64, count: u32, hv_count: u32, total_minor: i64, flagged: bool },
}

/// What is found and should not be, and what should be found and is not; equal rows as often as they differ in number.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Expected and not found.
    pub missing: Vec<Row>,
    /// Found and not expected.
    pub extra: Vec<Row>,
}

/// The open sessions after a part of the input, and the rows so far.
#[derive(Default)]
pub struct Reference {
    open: BTreeMap<String, Vec<Payment>>,
    rows: Rows,
    latest_ms: Option<i64>,
}

struct Payment {
    ts: i64,
    amount_minor: i64,
}

impl Reference {
    /// Takes the text of the next file. Refuses lines that are no payments, or not in time order.
    pub fn read(&mut self, text: &str) -> Result<()> {
        #[derive(Deserialize)]
        struct Line<'l> {
            user_id: &'l str,
            ts: i64,
            amount_minor: i64,
        }
        for text in text.lines() {
            let Line { user_id, ts, amount_minor } =
                serde_json::from_str(text).with_context(|| format!("not a payment: {text}"))?;
            ensure!(self.latest_ms.is_none_or(|latest| ts >= latest), "the input is not in time order: {text}");
            self.latest_ms = Some(ts);
            if !self.open.contains_key(user_id) {
                self.open.insert(user_id.to_owned(), Vec::new());
            }
            let Some(session) = self.open.get_mut(user_id) else { continue };
            if session.last().is_some_and(|last| ts - last.ts > GAP_MS) {
                close(user_id, &std::mem::take(session), &mut self.rows);
            }
            session.push(Payment { ts, amount_minor });
        }
        Ok(())
    }

    /// The rows of all that was read. Refuses an input after which a session is still open.
    pub fn finish(mut self) -> Result<Rows> {
        for (user_id, session) in &self.open {
            if user_id != END_USER {
                let is_over =
                    session.last().zip(self.latest_ms).is_some_and(|(last, latest)| latest - last.ts > GAP_MS);
                ensure!(is_over, "the session of {user_id} is still open at the end of the input");
                close(user_id, session, &mut self.rows);
            }
        }
        Ok(self.rows)
    }
}

impl Rows {
    /// Adds the rows of an output, one JSON object a line, without those of the user at the end. Refuses lines of another form.
    pub fn read(&mut self, text: &str) -> Result<()> {
        for line in text.lines() {
            let row: Row = serde_json::from_str(line).with_context(|| format!("not a row: {line}"))?;
            let (Row::Alert { user_id, .. } | Row::Session { user_id, .. }) = &row;
            if user_id != END_USER {
                self.add(row);
            }
        }
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.values().map(|&count| u64::from(count)).sum()
    }

    /// In what these rows are not the expected ones.
    pub fn difference(&self, expected: &Rows) -> Difference {
        Difference { missing: expected.lacking_in(self), extra: self.lacking_in(expected) }
    }

    fn lacking_in(&self, other: &Rows) -> Vec<Row> {
        let lacking = |(row, count): (&Row, &u32)| {
            let there = other.0.get(row).copied().unwrap_or(0);
            std::iter::repeat_n(row.clone(), count.saturating_sub(there) as usize)
        };
        self.0.iter().flat_map(lacking).collect()
    }

    fn add(&mut self, row: Row) {
        *self.0.entry(row).or_default() += 1;
    }
}

impl Difference {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty()
    }
}

/// The numbers, and a few rows of each kind.
impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        write!(formatter, "{} rows are missing, {} too many", self.missing.len(), self.extra.len())?;
        for (what, rows) in [("missing", &self.missing), ("too many", &self.extra)] {
            for row in rows.iter().take(SHOWN) {
                write!(formatter, "\n  {what}: {row:?}")?;
            }
        }
        Ok(())
    }
}

fn close(user_id: &str, payments: &[Payment], rows: &mut Rows) {
    let (Some(first), Some(last)) = (payments.first(), payments.last()) else { return };
    let high: Vec<&Payment> = payments.iter().filter(|payment| payment.amount_minor >= HIGH_MINOR).collect();
    let (hv_count, user_id) = (high.len() as u32, user_id.to_owned());
    if let Some(sixth) = high.get(ALERT_AT as usize - 1) {
        rows.add(Row::Alert { user_id: user_id.clone(), session_start: first.ts, ts: sixth.ts, hv_count: ALERT_AT });
    }
    rows.add(Row::Session {
        user_id,
        start: first.ts,
        end: last.ts,
        count: payments.len() as u32,
        hv_count,
        total_minor: payments.iter().map(|payment| payment.amount_minor).sum(),
        flagged: hv_count >= ALERT_AT,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payment(user: &str, minute: i64, amount: i64) -> String {
        format!("{{\"id\":\"t\",\"user_id\":\"{user}\",\"ts\":{},\"amount_minor\":{amount}}}\n", minute * 60_000)
    }

    fn rows(lines: &[&str]) -> Rows {
        let mut rows = Rows::default();
        rows.read(&lines.join("\n")).unwrap();
        rows
    }

    const ALERT: &str = r#"{"kind":"alert","user_id":"a","session_start":0,"ts":9000000,"hv_count":6}"#;
    const FIRST: &str = r#"{"kind":"session","user_id":"a","start":0,"end":9000000,"count":6,"hv_count":6,"total_minor":300000,"flagged":true}"#;
    const SECOND: &str = r#"{"kind":"session","user_id":"a","start":10860000,"end":10860000,"count":1,"hv_count":0,"total_minor":1,"flagged":false}"#;
    const OTHER: &str = r#"{"kind":"session","user_id":"b","start":9000000,"end":9000000,"count":1,"hv_count":0,"total_minor":49999,"flagged":false}"#;

    #[test]
    fn rows_of_a_small_input_are_the_ones_worked_out_by_hand() {
        let mut reference = Reference::default();
        let first_file: String = (0..3).map(|number| payment("a", number * 30, 50_000)).collect();
        reference.read(&first_file).unwrap();
        reference.read(&(3..6).map(|number| payment("a", number * 30, 50_000)).collect::<String>()).unwrap();
        let rest = [payment("b", 150, 49_999), payment("a", 181, 1), payment(END_USER, 2_000, 100)];
        reference.read(&rest.concat()).unwrap();
        assert_eq!(reference.finish().unwrap(), rows(&[ALERT, FIRST, SECOND, OTHER]));
    }

    #[test]
    fn an_input_out_of_order_or_without_an_end_is_refused() {
        let mut reference = Reference::default();
        reference.read(&payment("a", 5, 1)).unwrap();
        assert!(reference.read(&payment("b", 4, 1)).unwrap_err().to_string().contains("not in time order"));
        assert!(reference.finish().unwrap_err().to_string().contains("session of a is still open"));
    }

    #[test]
    fn rows_in_another_order_are_equal() {
        assert!(rows(&[OTHER, ALERT, FIRST]).difference(&rows(&[FIRST, OTHER, ALERT])).is_none());
    }

    #[test]
    fn rows_that_are_missing_or_too_many_are_found_one_by_one() {
        let (found, expected) = (rows(&[OTHER, OTHER, OTHER, ALERT]), rows(&[OTHER, FIRST, ALERT]));
        let difference = found.difference(&expected);
        assert_eq!((difference.missing.len(), difference.extra.len()), (1, 2));
        assert!(matches!(&difference.missing[0], Row::Session { count: 6, .. }));
        assert!(!difference.is_none());
        assert!(
            difference.to_string().starts_with("1 rows are missing, 2 too many\n  missing: Session"),
            "{difference}"
        );
    }

    #[test]
    fn a_row_with_another_value_is_missing_and_too_many() {
        let found = rows(&[&FIRST.replace("300000", "300001")]);
        let difference = found.difference(&rows(&[FIRST]));
        assert_eq!((difference.missing.len(), difference.extra.len(), found.count()), (1, 1, 1));
    }

    #[test]
    fn a_row_with_a_field_more_or_less_is_refused() {
        let refused = |line: &str| Rows::default().read(line).unwrap_err().to_string();
        assert!(refused(&ALERT.replace(",\"hv_count\":6", "")).contains("not a row"));
        assert!(refused(&ALERT.replace(":6}", ":6,\"more\":1}")).contains("not a row"));
    }
}
