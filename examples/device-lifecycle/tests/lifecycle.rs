//! What the scenarios cannot show: single calls, refused parameters, and properties over random lives.
#![allow(clippy::unwrap_used)]

use device_lifecycle::{Device, DeviceLifecycle, Parameters};
use keyfold_sdk::testing::{self, TestGroupState, TestStream};
use keyfold_sdk::{Rule, Timeout, TimeoutClock, TimeoutKind};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

const START_MS: i64 = 1_767_571_200_000;
const MINUTE_MS: i64 = 60_000;

#[test]
fn a_call_without_passed_deadline_sets_the_timeout_again() {
    let mut stream = TestStream::new(rule(), START_MS);
    stream.events("D1", &[(0, heartbeat(1))]).unwrap();
    let device: Device = stream.state("D1").unwrap().unwrap();
    let mut state =
        TestGroupState::create(Some(&device), TimeoutKind::ProcessingTime, START_MS + 1_000, None, false).unwrap();
    let outputs = testing::call(&rule(), "D1", &[json!({"type": "maintenance.end"})], &mut state).unwrap();
    assert_eq!(outputs, [] as [Value; 0]);
    let at_ms = START_MS + 150_000 - 1;
    assert_eq!(state.timeout(), Some(Timeout { clock: TimeoutClock::ProcessingTime, at_ms }));
}

#[test]
fn the_end_of_a_maintenance_makes_no_unknown_device_known() {
    let mut stream = TestStream::new(rule(), START_MS);
    stream.events("D1", &[(0, json!({"type": "maintenance.end"}))]).unwrap();
    assert_eq!(stream.keys().count(), 0);
}

#[test]
fn a_deadline_in_the_next_millisecond_is_one_late_and_not_refused() {
    let mut stream = TestStream::new(rule(), START_MS);
    stream.events("D1", &[(0, json!({"type": "maintenance.start", "until_ms": START_MS + 1}))]).unwrap();
    assert_eq!(stream.timeout("D1").map(|timeout| timeout.at_ms), Some(START_MS + 1));
    stream.advance_wall_to(START_MS + 2).unwrap();
    assert_eq!(stage(&stream), "provisioned");
}

#[test]
fn a_restart_after_the_end_of_a_maintenance_reports_nobody() {
    let mut stream = TestStream::new(rule(), START_MS);
    stream.events("D1", &[(0, heartbeat(1))]).unwrap();
    let until_ms = START_MS + 40 * MINUTE_MS;
    stream.events("D1", &[(0, json!({"type": "maintenance.start", "until_ms": until_ms}))]).unwrap();
    let restart_ms = until_ms + 330_000;
    assert_eq!(stream.advance_wall_to(restart_ms).unwrap(), [] as [Value; 0]);
    assert_eq!(stream.advance_wall_to(restart_ms + 329_000).unwrap(), [] as [Value; 0]);
    assert_eq!(stream.advance_wall_to(restart_ms + 330_000).unwrap().len(), 1);
}

#[test]
fn parameters_are_refused_by_name() {
    for (parameters, name) in [
        (json!({"interval_ms": 0}), "interval_ms"),
        (json!({"late_ms": 60_000}), "late_ms"),
        (json!({"offline_ms": 150_000}), "offline_ms"),
        (json!({"flap_count": 1}), "flap_count"),
        (json!({"flap_count": 9}), "flap_count"),
        (json!({"flap_window_ms": 660_000}), "flap_window_ms"),
        (json!({"retired_keep_ms": -1}), "retired_keep_ms"),
        (json!({"offline_s": 330}), "offline_s"),
    ] {
        let refused = serde_json::from_value::<Parameters>(parameters)
            .map_err(|error| error.to_string())
            .and_then(|parameters| DeviceLifecycle::new(parameters).map(drop).map_err(|error| error.to_string()));
        assert!(refused.as_ref().is_err_and(|text| text.contains(name)), "{name}: {refused:?}");
    }
}

/// One batch, or time that passes.
#[derive(Debug, Clone)]
enum Step {
    Events(Vec<Value>),
    Wait(i64),
}

fn lives(max_steps: usize, with_operators: bool) -> impl Strategy<Value = Vec<Step>> {
    let heartbeat = (0..200u64).prop_map(heartbeat);
    let operators = prop_oneof![
        Just(json!({"type": "provisioned"})),
        (0..100 * MINUTE_MS)
            .prop_map(|after_ms| json!({"type": "maintenance.start", "until_ms": START_MS + 10 * after_ms})),
        Just(json!({"type": "maintenance.end"})),
        Just(json!({"type": "decommissioned"})),
    ];
    let event = prop_oneof![
        6 => heartbeat,
        1 => Just(json!({"type": "reboot"})),
        u32::from(with_operators) => operators,
        1 => Just(json!({"type": "firmware.updated"})),
    ];
    let wait = prop_oneof![
        4 => 1..6 * MINUTE_MS,
        4 => Just(330_000),
        1 => 0..30 * MINUTE_MS,
        1 => Just(26 * 60 * MINUTE_MS),
    ];
    let step = prop_oneof![prop::collection::vec(event, 1..5).prop_map(Step::Events), wait.prop_map(Step::Wait)];
    prop::collection::vec(step, 1..max_steps)
}

proptest! {
    // The same cases on every run: a failure here must not come and go.
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(58), ..ProptestConfig::default()
    })]

    #[test]
    fn how_a_batch_is_split_changes_nothing(steps in lives(40, true)) {
        let (mut whole, mut split) = (TestStream::new(rule(), START_MS), TestStream::new(rule(), START_MS));
        let mut now_ms = START_MS;
        for step in steps {
            match step {
                Step::Events(events) => {
                    let events: Vec<(i64, Value)> = events.into_iter().map(|event| (0, event)).collect();
                    let together = whole.events("D1", &events).unwrap();
                    let alone: Vec<Value> =
                        events.iter().flat_map(|event| split.events("D1", std::slice::from_ref(event)).unwrap()).collect();
                    prop_assert_eq!(together, alone);
                }
                Step::Wait(wait_ms) => {
                    now_ms += wait_ms;
                    prop_assert_eq!(whole.advance_wall_to(now_ms).unwrap(), split.advance_wall_to(now_ms).unwrap());
                }
            }
            prop_assert_eq!(whole.state("D1").unwrap(), split.state("D1").unwrap());
            prop_assert_eq!(whole.timeout("D1"), split.timeout("D1"));
        }
    }

    #[test]
    fn the_timeout_is_that_of_the_stage(steps in lives(40, true)) {
        let mut stream = TestStream::new(rule(), START_MS);
        let mut now_ms = START_MS;
        for step in steps {
            run(&mut stream, step, &mut now_ms);
            let Some(device) = stream.state("D1").unwrap() else {
                prop_assert_eq!(stream.timeout("D1"), None);
                continue;
            };
            let device = serde_json::to_value(&device).unwrap();
            let after = |field: &str, length_ms: i64| device[field].as_i64().map(|from_ms| from_ms + length_ms);
            let flaps = device["flaps"].as_array().unwrap();
            let deadline_ms = match device["stage"].as_str().unwrap() {
                "provisioned" => None,
                "online" => after("watched_from_ms", 150_000),
                "late" => after("watched_from_ms", 330_000),
                "offline" if device["held"] == true => flaps[flaps.len() - 3].as_i64().map(|ms| ms + 30 * MINUTE_MS),
                "offline" => None,
                "maintenance" => after("until_ms", 0),
                "retired" => after("retired_ms", 24 * 60 * MINUTE_MS),
                stage => panic!("the stage {stage} is new"),
            };
            let timeout = deadline_ms.map(|deadline_ms| Timeout {
                clock: TimeoutClock::ProcessingTime,
                at_ms: (deadline_ms - 1).max(now_ms + 1),
            });
            prop_assert_eq!(stream.timeout("D1"), timeout);
            prop_assert!(deadline_ms.is_none_or(|deadline_ms| deadline_ms > now_ms), "{:?}", device);
            prop_assert!(flaps.len() <= 8 && flaps.is_sorted_by_key(|ms| ms.as_i64()), "{:?}", flaps);
        }
    }

    #[test]
    fn every_return_answers_one_report_of_being_offline(steps in lives(60, false)) {
        let mut stream = TestStream::new(rule(), START_MS);
        let mut now_ms = START_MS;
        let mut is_offline = false;
        for step in steps {
            for output in run(&mut stream, step, &mut now_ms) {
                prop_assert_eq!(output["kind"] == "device.offline", !is_offline, "{}", output);
                is_offline = !is_offline;
            }
            // What is reported may lag behind the stage while the device flaps, never the other way round.
            prop_assert!(!is_offline || stage(&stream) == "offline");
        }
    }
}

fn run(stream: &mut TestStream<DeviceLifecycle>, step: Step, now_ms: &mut i64) -> Vec<Value> {
    match step {
        Step::Events(events) => {
            let events: Vec<(i64, Value)> = events.into_iter().map(|event| (0, event)).collect();
            stream.events("D1", &events).unwrap()
        }
        Step::Wait(wait_ms) => {
            *now_ms += wait_ms;
            stream.advance_wall_to(*now_ms).unwrap()
        }
    }
}

fn rule() -> DeviceLifecycle {
    DeviceLifecycle::new(Parameters::default()).unwrap()
}

fn heartbeat(seq: u64) -> Value {
    json!({"type": "heartbeat", "seq": seq})
}

fn stage(stream: &TestStream<DeviceLifecycle>) -> String {
    let device = stream.state("D1").unwrap().unwrap();
    serde_json::to_value(&device).unwrap()["stage"].as_str().unwrap().to_owned()
}
