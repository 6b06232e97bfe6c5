//! The rows are those of a plain loop over all events, however the events are cut into batches.
#![allow(clippy::unwrap_used)]

use card_sessions::{CardSessions, Parameters};
use keyfold_sdk::Rule;
use keyfold_sdk::testing::TestStream;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const GAP_MS: i64 = 30 * 60 * 1000;
const DELAY_MS: i64 = 10_000;
const FIRST_MS: i64 = 1_767_607_200_000;

/// A payment, and whether a batch ends after it.
#[derive(Debug, Clone)]
struct Step {
    user: usize,
    pause_ms: i64,
    amount_minor: i64,
    batch_ends: bool,
}

/// Pauses around the two limits, the gap and the watermark delay, are where a rule goes wrong.
fn pause_ms() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0..60_000_i64, 1 => GAP_MS - 2..GAP_MS + 3, 1 => GAP_MS + DELAY_MS - 2..GAP_MS + DELAY_MS + 3]
}

fn step() -> impl Strategy<Value = Step> {
    let amount_minor = prop_oneof![1 => 0..50_000_i64, 3 => 50_000..90_000_i64];
    (0..3_usize, pause_ms(), amount_minor, any::<bool>()).prop_map(|(user, pause_ms, amount_minor, batch_ends)| Step {
        user,
        pause_ms,
        amount_minor,
        batch_ends,
    })
}

/// The rows that a loop in time order writes, sessions that are still open included.
fn expected(steps: &[Step]) -> Vec<String> {
    #[derive(Clone, Copy)]
    struct Open(i64, i64, u64, u64, i64);
    let mut rows = Vec::new();
    let mut open: BTreeMap<usize, Open> = BTreeMap::new();
    let close = |user: usize, Open(start, end, count, hv_count, total): Open| {
        json!({"kind": "session", "user_id": format!("u{user}"), "start": start, "end": end, "count": count,
            "hv_count": hv_count, "total_minor": total, "flagged": hv_count >= 6})
    };
    let mut ts = FIRST_MS;
    for step in steps {
        ts += step.pause_ms;
        if let Some(over) = open.get(&step.user).copied().filter(|session| ts - session.1 > GAP_MS) {
            rows.push(close(step.user, over));
            open.remove(&step.user);
        }
        let session = open.entry(step.user).or_insert(Open(ts, ts, 0, 0, 0));
        let high = step.amount_minor >= 50_000;
        *session = Open(session.0, ts, session.2 + 1, session.3 + u64::from(high), session.4 + step.amount_minor);
        if high && session.3 == 6 {
            let user = format!("u{}", step.user);
            rows.push(json!({"kind": "alert", "user_id": user, "session_start": session.0, "ts": ts, "hv_count": 6}));
        }
    }
    rows.extend(open.into_iter().map(|(user, session)| close(user, session)));
    sorted(rows)
}

/// The rows of the rule, batch by batch as the host runs them, until every session has timed out.
fn rows(steps: &[Step]) -> Vec<String> {
    let mut stream = TestStream::new(CardSessions::new(Parameters::default()).unwrap(), 0);
    let mut rows = Vec::new();
    let mut batch: BTreeMap<String, Vec<(i64, Value)>> = BTreeMap::new();
    let mut ts = FIRST_MS;
    for step in steps {
        ts += step.pause_ms;
        let event =
            json!({"user_id": format!("u{}", step.user), "ts": ts, "amount_minor": step.amount_minor, "country": "ES"});
        batch.entry(format!("u{}", step.user)).or_default().push((ts, event));
        if step.batch_ends {
            for (user, events) in std::mem::take(&mut batch) {
                rows.extend(stream.events(&user, &events).unwrap());
            }
            rows.extend(stream.advance_event_to(ts - DELAY_MS).unwrap());
        }
    }
    for (user, events) in batch {
        rows.extend(stream.events(&user, &events).unwrap());
    }
    rows.extend(stream.advance_event_to(ts + GAP_MS + 1).unwrap());
    assert_eq!(stream.keys().count(), 0, "every session is over, so nothing is kept");
    sorted(rows)
}

fn sorted(rows: Vec<Value>) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

proptest! {
    // No file of failures: the sequence of cases is the same on every run.
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn rows_do_not_depend_on_batches(steps in prop::collection::vec(step(), 0..60)) {
        prop_assert_eq!(rows(&steps), expected(&steps));
    }
}

#[test]
fn rows_have_the_fields_in_order() {
    let parameters: Parameters = serde_json::from_value(json!({"hv_count_max": 0})).unwrap();
    let rule = CardSessions::new(parameters).unwrap();
    let mut state =
        keyfold_sdk::testing::TestGroupState::create(None, CardSessions::TIMEOUT, 0, Some(0), false).unwrap();
    let event = json!({"user_id": "u1", "ts": 5, "amount_minor": 50_000});
    let rows = keyfold_sdk::testing::call_at(&rule, "u1", &[(5, event)], &mut state).unwrap();
    assert_eq!(rows, [json!({"kind": "alert", "user_id": "u1", "session_start": 5, "ts": 5, "hv_count": 1})]);
    assert_eq!(state.timeout().unwrap().at_ms, 5 + GAP_MS);
}

#[test]
fn an_event_out_of_order_never_moves_the_end_back() {
    let mut stream = TestStream::new(CardSessions::new(Parameters::default()).unwrap(), 0);
    let event = |ts: i64| (ts, json!({"amount_minor": 1}));
    stream.events("u1", &[event(FIRST_MS + 5_000), event(FIRST_MS + 2_000)]).unwrap();
    let session = stream.state("u1").unwrap().unwrap();
    assert_eq!((session.start_ms, session.last_ms, session.count), (FIRST_MS + 2_000, FIRST_MS + 5_000, 2));
    assert_eq!(stream.timeout("u1").unwrap().at_ms, FIRST_MS + 5_000 + GAP_MS);
}

#[test]
fn a_session_that_is_already_over_gets_the_watermark_as_timeout() {
    let mut stream = TestStream::new(CardSessions::new(Parameters::default()).unwrap(), 0);
    stream.advance_event_to(FIRST_MS).unwrap();
    stream.events("u1", &[(FIRST_MS - 2 * GAP_MS, json!({"amount_minor": 1}))]).unwrap();
    assert_eq!(stream.timeout("u1").unwrap().at_ms, FIRST_MS);
}

#[test]
fn parameters_are_refused_by_name() {
    let refusal = |parameters: Value| match serde_json::from_value::<Parameters>(parameters) {
        Ok(parameters) => CardSessions::new(parameters).err().unwrap().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(refusal(json!({"session_gap_ms": 0})).starts_with("session_gap_ms is 0"));
    assert!(refusal(json!({"high_value_minor": 0})).starts_with("high_value_minor is 0"));
    assert!(refusal(json!({"gap": 1})).contains("unknown field `gap`"));
}
