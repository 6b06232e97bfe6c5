//! The guests that play the functions of Spark's tests: each is of the kind that it should be, and runs in the host. What the
//! functions do is tested beside them, in `tests/guests/facts`.

use super::assert_says;
use crate::support::rules::{Setup, Trial, event, guest, loader};
use keyfold::description::{Form, OutputMode, TimeoutKind};
use keyfold::event::Millis;
use keyfold::limits::Limits;
use serde_json::{Value, json};

fn play(guest: Setup, parameters: Value) -> Trial {
    Setup { parameters, ..guest }.open()
}

#[test]
fn there_is_a_guest_for_each_kind_of_timeout_and_each_form() {
    let guests = [
        (guest("facts-none"), Form::FlatMap, TimeoutKind::None),
        (guest("facts-processing"), Form::FlatMap, TimeoutKind::ProcessingTime),
        (guest("facts-event"), Form::FlatMap, TimeoutKind::EventTime),
        (guest("facts-map"), Form::Map, TimeoutKind::None),
        (guest("facts-map-event"), Form::Map, TimeoutKind::EventTime),
    ];
    let loader = loader(&Limits::default());
    for (bytes, form, timeout) in guests {
        let component = loader.load(&bytes).expect("the rule is right");
        let description = component.description();
        assert_eq!((description.form, description.timeout), (form, timeout), "{}", description.name);
        assert_eq!(
            (description.output_mode, description.state_schema),
            (OutputMode::Update, 1),
            "{}",
            description.name
        );
    }
    let append = loader.load(&guest("facts-append")).expect("the rule is right");
    assert_eq!(append.description().output_mode, OutputMode::Append);
    let second = loader.load(&guest("facts-schema-2")).expect("the rule is right");
    assert_eq!((second.description().state_schema, &second.description().readable_schemas[..]), (2, &[2][..]));
}

#[test]
fn a_script_is_performed_on_the_state_that_the_host_keeps() {
    let mut trial = play(Setup::guest("facts-none"), json!({}));
    let script = |calls: Value| [json!({ "key": "a", "at": 1_000, "do": calls }).to_string()];
    let batch = trial.run(&script(json!([{"call": "get"}, {"call": "update", "with": {"n": 1}}])));
    assert_eq!(batch.outputs, [r#"["NoSuchElementException",null]"#]);
    let batch = trial.run(&script(json!([{"call": "update", "with": 2}, {"call": "fail"}])));
    assert_eq!((batch.outputs.len(), batch.letters[0].message.as_str()), (0, "the script says fail"));
    assert_eq!(trial.run(&script(json!([{"call": "get"}, {"call": "is-initial"}]))).outputs, [r#"[{"n":1},false]"#]);
}

#[test]
fn timeouts_of_the_functions_fire_on_their_clocks() {
    let mut processing =
        play(Setup::guest("facts-processing"), json!({ "function": "timeout-count", "timeout-ms": 10_000 }));
    processing.clock.advance_to(Millis(1_000));
    assert_eq!(processing.run_keys(&["a"]).outputs, [r#"["a",1]"#]);
    processing.clock.advance_to(Millis(12_000));
    assert_eq!(processing.run_keys(&["b"]).outputs, [r#"["b",1]"#, r#"["a",-1]"#]);

    let mut event_time = play(Setup::guest("facts-event"), json!({ "function": "max-event-time" }));
    assert_eq!(event_time.run(&[event("a", 15_000)]).outputs, [r#"["a",15]"#]);
    let nothing: [&str; 0] = [];
    assert_eq!(event_time.run_with_watermark(&nothing, Some(20_001)).outputs, [r#"["a",-1]"#]);
}

#[test]
fn in_the_map_form_every_call_has_one_output_or_its_key_fails() {
    let mut counting = play(Setup::guest("facts-map"), json!({ "function": "count-to-three" }));
    assert_eq!(counting.run_keys(&["a", "a", "b"]).outputs, [r#"["a",2]"#, r#"["b",1]"#]);
    assert_eq!(counting.run_keys(&["a"]).outputs, [r#"["a",-1]"#]);
    assert_eq!(counting.rows().into_keys().collect::<Vec<_>>(), ["b"]);

    let mut each_row = play(Setup::guest("facts-map-event"), json!({ "function": "rows-with-previous" }));
    let batch = each_row.run_keys(&["a", "b", "b"]);
    assert_eq!(batch.outputs, [r#"["a",null,0]"#]);
    assert_says(&batch.letters[0].message, &["the map form needs one output", "has 2 here"]);
}
