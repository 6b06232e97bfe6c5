//! States of 1.0 become those of 1.1.
#![allow(clippy::unwrap_used)]

use fraud_session::{Row, Stage, Tombstone};
use fraud_session_1_1::{FraudSession11, History};
use keyfold_sdk::testing;

fn closed(outcome: &str) -> Row {
    let tombstone = Tombstone { case_id: "c1".into(), closed_at: 1_000, outcome: outcome.into(), tomb_due: 2_000 };
    Row { stage: Stage::Closed(tombstone), ids: ["E1".to_owned()].into(), duplicates: 3 }
}

#[test]
fn a_case_that_was_closed_as_fraud_is_counted_and_all_else_stays() {
    for (outcome, confirmed) in [("confirmed_fraud", 1), ("false_alarm", 0)] {
        let row = closed(outcome);
        let migrated = testing::migrate::<FraudSession11>(1, &row).unwrap();
        assert_eq!(migrated, History { row, confirmed });
    }
}

#[test]
fn a_state_of_another_schema_is_refused() {
    let error = testing::migrate::<FraudSession11>(7, &closed("confirmed_fraud")).unwrap_err();
    assert!(error.to_string().contains("schema 7 is not known"), "{error}");
}
