//! `MapRule` through the adapter and the test kit: one output for each call, and a description that says so.

use keyfold_sdk::prelude::*;
use keyfold_sdk::testing::{self, TestGroupState};
use keyfold_sdk::{Map, private};
use serde_json::{Value, json};

/// Counts, says how it was called, and refuses events that are null.
struct Count;

impl MapRule for Count {
    type Event<'e> = Option<u32>;
    type State = usize;
    type Output = (String, usize, bool, Option<i64>);
    type Parameters = NoParameters;
    const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;
    const STATE_FORMAT: StateFormat = StateFormat::Json;
    const STATE_SCHEMA: u32 = 3;
    const READABLE_SCHEMAS: &'static [u32] = &[2, 3];

    fn new(_: NoParameters) -> Result<Self> {
        Ok(Count)
    }

    fn call(
        &self,
        key: &str,
        events: Events<Option<u32>>,
        state: &mut GroupState<usize>,
    ) -> Result<(String, usize, bool, Option<i64>)> {
        let mut count = state.get_option()?.unwrap_or(0);
        for event in events {
            event?.ok_or_else(|| Error::new("an event is null"))?;
            count += 1;
        }
        state.update(&count)?;
        Ok((key.to_owned(), count, state.is_initial(), state.current_watermark_ms().ok()))
    }
}

#[test]
fn a_map_rule_describes_its_form_and_the_update_mode() {
    let described: Value = serde_json::from_slice(&private::describe::<Map<Count>>("count", "1.0.0")).expect("JSON");
    assert_eq!((&described["form"], &described["output_mode"]), (&json!("map"), &json!("update")));
    assert_eq!((&described["timeout"], &described["state_format"]), (&json!("event-time"), &json!("json")));
    assert_eq!((&described["state_schema"], &described["readable_schemas"]), (&json!(3), &json!([2, 3])));
}

#[test]
fn every_call_of_a_map_rule_gives_one_output() {
    let mut state = TestGroupState::create(None, TimeoutKind::EventTime, 0, Some(7), false).expect("it is legal");
    let outputs = testing::call(&Map(Count), "a", &[json!(1), json!(2)], &mut state).expect("it counts");
    assert_eq!(outputs, [json!(["a", 2, false, 7])]);
    let mut state = TestGroupState::create_initial(&5, TimeoutKind::EventTime, 0, Some(7)).expect("it is legal");
    let outputs = testing::call(&Map(Count), "a", &[], &mut state).expect("it counts");
    assert_eq!(outputs, [json!(["a", 5, true, 7])]);
}

#[test]
fn a_map_rule_that_fails_gives_no_output() {
    let mut state = TestGroupState::create(None, TimeoutKind::EventTime, 0, Some(7), false).expect("it is legal");
    let error = testing::call(&Map(Count), "a", &[Value::Null], &mut state).expect_err("null is refused");
    assert_eq!(error.to_string(), "an event is null");
}

/// Two groups, the second with imported state.
#[test]
fn the_flags_of_the_contract_reach_the_function() {
    let rule = private::Configured::<Map<Count>>::new();
    private::configure(&rule, b"{}").expect("it takes no parameters");
    let call = |batch_flags| {
        let outcomes =
            private::call(&rule, &contract::batch(batch_flags), &contract::two_groups()).expect("it answers");
        let text = String::from_utf8(outcomes.outputs).expect("UTF-8");
        (text, outcomes.group_output_ends)
    };
    assert_eq!(call(0), (r#"["a",1,false,null]["b",5,true,null]"#.into(), vec![1, 2]));
    assert_eq!(call(2).0, r#"["a",1,false,9]["b",5,true,9]"#);
    assert_eq!(call(4).0, r#"["a",1,false,null]["b",5,true,null]"#);
    assert_eq!(call(6).0, r#"["a",1,false,-1]["b",5,true,-1]"#);
}

mod contract {
    //! A call as the host makes it.

    use keyfold_sdk::bindings::exports::keyfold::rule::state_function::{Batch, Groups};

    pub fn batch(batch_flags: u32) -> Batch {
        Batch { partition: 0, id: 0, time_ms: 100, watermark_ms: 9, seed: vec![0; 16], batch_flags, ext: Vec::new() }
    }

    pub fn two_groups() -> Groups {
        Groups {
            keys: b"ab".to_vec(),
            key_ends: vec![1, 2],
            states: b"5".to_vec(),
            state_ends: vec![0, 1],
            state_schemas: vec![0, 3],
            group_flags: vec![0, 2],
            event_ends: vec![1, 1],
            event_times_ms: Vec::new(),
            payloads: b"8".to_vec(),
            payload_ends: vec![1],
            ext: Vec::new(),
        }
    }
}
