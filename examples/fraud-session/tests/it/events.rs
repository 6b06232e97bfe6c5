//! What is refused where it enters: parameters by name, events by field.

use fraud_session::{Event, FraudSession, Parameters};
use keyfold_sdk::Rule;
use keyfold_sdk::testing::TestStream;
use serde_json::{Value, json};

fn refusal(parameters: Value) -> String {
    match serde_json::from_value::<Parameters>(parameters) {
        Ok(parameters) => FraudSession::new(parameters).err().expect("the parameters are refused").to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn parameters_are_refused_by_name() {
    assert_eq!(
        refusal(json!({"confirm_window": "30m"})),
        "confirm_window is 30m: it must be shorter than session_gap, 30m"
    );
    assert_eq!(refusal(json!({"velocity_limit": 0})), "velocity_limit is 0: it must be from 1 to 1000");
    assert!(refusal(json!({"session_gap": "soon"})).starts_with("session_gap: 'soon' is not an interval"));
    assert!(refusal(json!({"case_ttl": "1s"})).starts_with("case_ttl is 1s"));
    assert!(refusal(json!({"closed_tombstone": "31d"})).starts_with("closed_tombstone is 31d"));
    assert!(refusal(json!({"evidence_cap": 129})).starts_with("evidence_cap is 129"));
    assert!(refusal(json!({"ids_cap": 0})).starts_with("ids_cap is 0"));
    assert!(refusal(json!({"high_value": 1})).contains("unknown field `high_value`"));
}

#[test]
fn events_are_refused_by_field() {
    let refusal = |event: Value| serde_json::from_value::<Event>(event).unwrap_err().to_string();
    assert_eq!(refusal(json!({"amount_minor": 1})), "a payment has no txn_id");
    assert_eq!(refusal(json!({"txn_id": "E1"})), "a payment has no amount_minor");
    let long = "x".repeat(65);
    assert_eq!(refusal(json!({"txn_id": long, "amount_minor": 1})), "txn_id has 65 bytes: at most 64 are allowed");
}

#[test]
fn lowering_the_limit_fires_only_at_the_next_high_payment() {
    let rule = |limit: u32| FraudSession::new(Parameters { velocity_limit: limit, ..Parameters::default() }).unwrap();
    let payment = |number: i64| {
        let event = json!({"txn_id": format!("E{number}"), "amount_minor": 60_000});
        (1_767_607_200_000 + number * 1000, event)
    };
    let mut old = TestStream::new(rule(5), 0);
    old.events("U1", &[payment(1), payment(2), payment(3), payment(4)]).unwrap();
    let state = old.state("U1").unwrap().unwrap();

    use keyfold_sdk::testing::{TestGroupState, call_at};
    let mut given = TestGroupState::create(Some(&state), FraudSession::TIMEOUT, 0, Some(0), false).unwrap();
    let low = (1_767_607_205_000, json!({"txn_id": "E5", "amount_minor": 1}));
    assert!(call_at(&rule(3), "U1", &[low], &mut given).unwrap().is_empty());
    let outputs = call_at(&rule(3), "U1", &[payment(6)], &mut given).unwrap();
    assert_eq!(outputs[0]["kind"], "alert.suspicious");
    assert_eq!(outputs[0]["hv_count"], 5);
}

#[test]
fn absurd_times_and_amounts_do_not_trap() {
    let mut stream = TestStream::new(FraudSession::new(Parameters::default()).unwrap(), 0);
    for (number, at_ms) in [i64::MIN, -1, 0, i64::MAX, i64::MAX].into_iter().enumerate() {
        let event = json!({"txn_id": format!("E{number}"), "amount_minor": i64::MAX});
        stream.events("U1", &[(at_ms, event)]).unwrap();
    }
}

#[test]
fn the_state_of_a_busy_user_stays_below_4_kib() {
    let mut stream = TestStream::new(FraudSession::new(Parameters::default()).unwrap(), 0);
    let payments: Vec<(i64, Value)> = (0..10_000)
        .map(|number| {
            let id = format!("t{number:07}");
            let event = json!({"txn_id": id, "amount_minor": 60_000, "country": "DE", "device_id": "d6990"});
            (1_767_607_200_000 + number * 1000, event)
        })
        .collect();
    stream.events("U1", &payments).unwrap();
    let state = stream.state("U1").unwrap().unwrap();
    assert_eq!(serde_json::to_value(&state).unwrap()["evidence_truncated"], true);
    // As JSON it is longer than as it is stored.
    let bytes = serde_json::to_vec(&state).unwrap().len();
    assert!(bytes <= 4096, "the state has {bytes} bytes");
}
