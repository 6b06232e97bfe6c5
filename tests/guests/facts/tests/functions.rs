//! The functions without a host: what each gives for the events that its facts name.

use facts::{EventTime, Facts, Kind, NoTimeout, ProcessingTime};
use keyfold_sdk::prelude::*;
use keyfold_sdk::testing::{self, TestGroupState, TestStream};
use keyfold_sdk::{Map, Rule};
use serde_json::{Value, json};

fn facts<K: Kind>(parameters: Value) -> Facts<K> {
    let Value::Object(parameters) = parameters else { panic!("parameters are an object") };
    <Facts<K> as Rule>::new(parameters).expect("the parameters are right")
}

fn stream<K: Kind>(parameters: Value) -> TestStream<Facts<K>> {
    TestStream::new(facts(parameters), 1_000)
}

/// Events without a value at these seconds.
fn at(seconds: &[i64]) -> Vec<(i64, Value)> {
    seconds.iter().map(|second| (second * 1_000, json!({}))).collect()
}

fn values(values: &[Value]) -> Vec<(i64, Value)> {
    values.iter().map(|value| (0, json!({ "v": value }))).collect()
}

#[test]
fn a_parameter_that_the_function_does_not_have_is_refused_by_name() {
    let refused = |parameters: Value| {
        let Value::Object(parameters) = parameters else { panic!("parameters are an object") };
        let Err(error) = <Facts<NoTimeout> as Rule>::new(parameters) else { panic!("they were accepted") };
        error.to_string()
    };
    assert!(refused(json!({ "limit": 3 })).contains("`limit`"), "script has no limit");
    assert!(refused(json!({ "function": "max-event-time", "limit": 3 })).contains("`limit`"));
    assert!(refused(json!({ "function": "timeout-count" })).contains("`timeout-ms`"));
    assert!(refused(json!({ "function": "dance" })).contains("`dance`"));
}

#[test]
fn script_gives_results_and_the_names_of_sparks_exceptions() {
    let calls = json!([
        {"call": "exists"}, {"call": "get"}, {"call": "get-option"}, {"call": "update", "with": null},
        {"call": "update", "with": 5}, {"call": "get"}, {"call": "set-timeout-duration", "with": "-1 second"},
        {"call": "set-timeout-duration", "with": 1000}, {"call": "set-timeout-timestamp", "with": [10000, "1 second"]},
        {"call": "set-timeout-timestamp", "with": 999}, {"call": "current-watermark"},
        {"call": "current-processing-time"}, {"call": "is-initial"}, {"call": "has-timed-out"},
    ]);
    let expected = json!([
        false,
        "NoSuchElementException",
        null,
        "IllegalArgumentException",
        null,
        5,
        "IllegalArgumentException",
        "UnsupportedOperationException",
        null,
        "IllegalArgumentException",
        1000,
        1000,
        false,
        false
    ]);
    let create = || TestGroupState::create(None, TimeoutKind::EventTime, 1_000, Some(1_000), false);
    let mut state = create().expect("it is legal");
    let outputs = testing::call(&facts::<EventTime>(json!({})), "a", &[json!({ "do": calls })], &mut state);
    assert_eq!(outputs.expect("it does not fail"), [expected]);

    let asked =
        json!([{"call": "is-updated"}, {"call": "is-removed"}, {"call": "is-timeout-updated"}, {"call": "timeout"}]);
    let asked: Vec<facts::script::Call> = serde_json::from_value(asked).expect("these are calls");
    let answers = facts::perform_in_test(&asked, &mut state).expect("it does not fail");
    assert_eq!(answers, [json!(true), json!(false), json!(true), json!({ "clock": "event-time", "ms": 11000 })]);
    assert!(facts::perform(&asked, &mut state).is_err(), "a rule cannot ask this");
}

#[test]
fn script_fails_when_told_to_and_says_what_it_is_told_in_a_timeout() {
    let on_timeout = json!([{"call": "has-timed-out"}, {"call": "remove"}]);
    let mut stream = stream::<ProcessingTime>(json!({ "function": "script", "on-timeout": on_timeout }));
    let calls = |calls: Value| [(0, json!({ "do": calls }))];
    assert!(stream.events("a", &calls(json!([{"call": "fail"}]))).is_err());
    let set = json!([{"call": "update", "with": "x"}, {"call": "set-timeout-duration", "with": 10}]);
    assert_eq!(stream.events("a", &calls(set)).expect("it is legal"), [json!([null, null])]);
    assert_eq!(stream.advance_wall_to(1_011).expect("it fires"), [json!([true, null])]);
    assert_eq!(stream.keys().count(), 0);
}

#[test]
fn count_to_three_forgets_the_key_at_three() {
    let mut stream = stream::<NoTimeout>(json!({ "function": "count-to-three" }));
    let mut one = || stream.events("a", &at(&[0])).expect("it counts");
    assert_eq!([one(), one(), one(), one()].concat(), [json!(["a", 1]), json!(["a", 2]), json!(["a", 1])]);

    let map = Map(facts::<NoTimeout>(json!({ "function": "count-to-three" })));
    let mut state = TestGroupState::create(Some(&json!(2)), TimeoutKind::None, 0, None, false).expect("it is legal");
    assert_eq!(testing::call(&map, "a", &[json!({})], &mut state).expect("it counts"), [json!(["a", -1])]);
}

#[test]
fn count_to_three_goes_row_by_row_and_fails_on_the_event_that_it_is_told() {
    let mut by_row = stream::<NoTimeout>(json!({ "function": "count-to-three", "per-row": true }));
    let outputs = by_row.events("a", &at(&[0, 0, 0, 0])).expect("it counts");
    assert_eq!(outputs, [json!(["a", 1]), json!(["a", 2]), json!(["a", 1])]);

    let mut failing = stream::<NoTimeout>(json!({ "function": "count-to-three", "fail-on": 2 }));
    assert_eq!(failing.events("a", &at(&[0])).expect("it counts"), [json!(["a", 1])]);
    let error = failing.events("a", &at(&[0, 0])).expect_err("it is told to");
    assert_eq!(error.to_string(), "event 2 of a fails");
}

#[test]
fn rows_are_counted_and_shown_with_what_was_before() {
    let mut rows = stream::<EventTime>(json!({ "function": "rows", "set-timeout": true }));
    assert_eq!(rows.events("a", &at(&[1, 2])).expect("it is legal"), [json!(["a", 2, false])]);
    assert_eq!(rows.events("a", &at(&[3])).expect("it is legal"), [json!(["a", 1, true])]);

    let mut previous = stream::<NoTimeout>(json!({ "function": "rows-with-previous" }));
    assert_eq!(previous.events("a", &values(&[json!(1)])).expect("it counts"), [json!(["a", 1, 0])]);
    let outputs = previous.events("a", &values(&[json!(2), json!(3)])).expect("it counts");
    assert_eq!(outputs, [json!(["a", 2, 1]), json!(["a", 3, 1])]);
}

#[test]
fn timeout_count_waits_as_long_as_it_is_told() {
    let parameters =
        json!({ "function": "timeout-count", "timeout-ms": 5000, "again-ms": 7500, "timeout-keys": ["a"] });
    let mut stream = stream::<ProcessingTime>(parameters);
    assert_eq!(stream.events("a", &at(&[0])).expect("it counts"), [json!(["a", 1])]);
    assert_eq!(stream.timeout("a").map(|timeout| timeout.at_ms), Some(6_000));
    assert_eq!(stream.events("a", &at(&[0])).expect("it counts"), [json!(["a", 2])]);
    assert_eq!(stream.timeout("a").map(|timeout| timeout.at_ms), Some(8_500));
    assert_eq!(stream.events("b", &at(&[0])).expect("it counts"), [json!(["b", 1])]);
    assert_eq!(stream.advance_wall_to(9_000).expect("it fires"), [json!(["a", -1])]);
    assert_eq!(stream.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn timeout_count_is_quiet_for_an_initial_state_when_told() {
    let call = |parameters| {
        let kind = TimeoutKind::ProcessingTime;
        let mut state = TestGroupState::create_initial(&json!(2), kind, 1_000, None).expect("it is legal");
        let outputs = testing::call(&facts::<ProcessingTime>(parameters), "a", &[], &mut state);
        (outputs.expect("it counts"), state.timeout().map(|timeout| timeout.at_ms))
    };
    let loud = json!({ "function": "timeout-count", "timeout-ms": 5000, "again-ms": 7500 });
    assert_eq!(call(loud), (vec![json!(["a", 2])], Some(6_000)));
    let quiet = json!({ "function": "timeout-count", "timeout-ms": 5000, "quiet-initial": true });
    assert_eq!(call(quiet), (vec![], Some(6_000)));
}

#[test]
fn max_event_time_ends_five_seconds_after_the_newest_event() {
    let mut stream = stream::<EventTime>(json!({ "function": "max-event-time" }));
    assert_eq!(stream.events("a", &at(&[11, 13, 15])).expect("it is legal"), [json!(["a", 15])]);
    assert!(stream.advance_event_to(5_000).expect("nothing fails").is_empty());
    assert_eq!(stream.events("a", &at(&[10])).expect("it is legal"), [json!(["a", 15])]);
    assert_eq!(stream.advance_event_to(21_000).expect("it fires"), [json!(["a", -1])]);
    assert_eq!(stream.events("b", &at(&[3])).expect("the watermark is far ahead"), [json!(["b", 3])]);
}

#[test]
fn initial_count_adds_rows_or_their_values_and_leaves_some_keys_alone() {
    let mut stream = stream::<NoTimeout>(json!({ "function": "initial-count" }));
    assert_eq!(stream.events("k", &at(&[0])).expect("it counts"), [json!(["k", ["k"], 1])]);
    assert_eq!(stream.events("k", &values(&[json!("x")])).expect("it counts"), [json!(["k", ["x"], 2])]);
    assert_eq!(stream.events("noUpd", &at(&[0])).expect("it counts"), [json!(["noUpd", ["noUpd"], 1])]);
    assert_eq!(stream.keys().collect::<Vec<_>>(), ["k"]);
    let mut sum = TestStream::new(facts::<NoTimeout>(json!({ "function": "initial-count", "sum": true })), 0);
    let outputs = sum.events("k", &values(&[json!(50), json!(-10)])).expect("it adds");
    assert_eq!(outputs, [json!(["k", [50, -10], 40])]);
}

#[test]
fn a_window_is_told_once_at_its_end_or_after_every_change() {
    for (mode, during, at_end) in [("append", None, Some(json!([10, 2]))), ("update", Some(json!([10, 2])), None)] {
        let mut stream = stream::<EventTime>(json!({ "function": "window-count", "mode": mode }));
        let outputs = stream.events("10", &at(&[10, 14])).expect("it is legal");
        assert_eq!(outputs, Vec::from_iter(during), "{mode}");
        assert!(stream.advance_event_to(14_999).expect("nothing fails").is_empty(), "{mode}");
        assert_eq!(stream.advance_event_to(15_000).expect("nothing fails"), Vec::from_iter(at_end), "{mode}");
        assert_eq!(stream.keys().count(), 0, "{mode}");
        // A window that opens when the watermark has passed it is told and forgotten at once.
        assert_eq!(stream.events("5", &at(&[9])).expect("it is legal"), [json!([5, 1])], "{mode}");
        assert_eq!(stream.keys().count(), 0, "{mode}");
    }
}

#[test]
fn last_value_gains_a_count_and_loses_it() {
    let call = |with_count: bool, given: Value, value: &str| {
        let rule = facts::<NoTimeout>(json!({ "function": "last-value", "with-count": with_count }));
        let mut state = TestGroupState::create(Some(&given), TimeoutKind::None, 0, None, false).expect("it is legal");
        let outputs = testing::call(&rule, "a", &[json!({ "v": value })], &mut state).expect("both shapes can be read");
        (outputs, state.get().expect("it was updated"))
    };
    let plain = json!({ "last": "s1" });
    let counted = json!({ "last": "s1", "count": 4 });
    assert_eq!(call(true, plain.clone(), "s2"), (vec![json!(["a", 1, "s1"])], json!({ "last": "s2", "count": 1 })));
    assert_eq!(call(true, counted.clone(), "s2"), (vec![json!(["a", 5, "s1"])], json!({ "last": "s2", "count": 5 })));
    assert_eq!(call(false, counted, "s2"), (vec![json!(["a", "s1"])], json!({ "last": "s2" })));
    assert_eq!(call(false, plain, "s2"), (vec![json!(["a", "s1"])], json!({ "last": "s2" })));
}
