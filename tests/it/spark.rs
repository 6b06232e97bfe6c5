//! What users of Spark have complained about, tried here. `docs/spark.md` says which complaint is which.

use crate::support::command;
use crate::support::place::Place;
use crate::support::process::{Process, wait_until};
use crate::support::rules::Setup;
use serde_json::{Value, json};

/// A guest that plays one of the functions of Spark's tests: `settings` are those of the rule file, `function` its parameters.
fn place(guest: &str, settings: &str, function: &str) -> Place {
    let component = command::target().join(format!("guests/{guest}.wasm"));
    Place::with_rule(&component, &format!("key = '/key'\n{settings}\n[parameters]\n{function}\n"))
}

/// With event time, and every event a batch of its own.
fn event_by_event(guest: &str, function: &str) -> Place {
    place(guest, "event-time = '/at'\nbatch-events = 1", function)
}

fn event(key: &str, at_ms: i64) -> String {
    format!("{{\"key\":\"{key}\",\"at\":{at_ms}}}\n")
}

/// An event for the guests whose events say what is called.
fn script(key: &str, at_ms: i64, calls: Value) -> String {
    format!("{}\n", json!({ "key": key, "at": at_ms, "do": calls }))
}

fn progress(place: &Place) -> Vec<Value> {
    place.finish(&["progress", "data", "--json"]).ok().json_lines()
}

const INPUT: [&str; 2] = ["--input", "input.jsonl"];

#[test]
fn with_timeouts_in_processing_time_a_batch_runs_when_one_is_due_and_not_before() {
    let place = place("facts-processing", "", "function = 'timeout-count'\ntimeout-ms = 400");
    place.write("input.jsonl", &event("a", 0));
    let args = ["run", ".", "--quiet", "--follow", "--data", "data", "--output", "output", "--input", "input.jsonl"];
    let process = Process::start(&mut place.keyfold(&args));
    wait_until("the timeout fired", || place.outputs().len() == 2);
    process.terminate().ok();
    assert_eq!(place.outputs(), [json!(["a", 1]), json!(["a", -1])]);
    // The input was looked at every 50 ms all the while.
    let rows_and_timeouts = |record: &Value| {
        (record["numInputRows"].as_u64(), record["stateOperators"][0]["customMetrics"]["numTimeouts"].as_u64())
    };
    let batches: Vec<_> = progress(&place).iter().map(rows_and_timeouts).collect();
    assert_eq!(batches, [(Some(1), Some(0)), (Some(0), Some(1))]);
}

#[test]
fn available_now_ends_while_timeouts_in_processing_time_are_waiting() {
    let place = place("facts-processing", "", "function = 'timeout-count'\ntimeout-ms = 3600000");
    place.write("input.jsonl", &event("a", 0));
    assert_eq!(place.run(&INPUT), [json!(["a", 1])]);
    assert_eq!(place.rows()[0]["timeout"]["clock"], "processing-time");
    assert_eq!(place.run(&INPUT), [] as [Value; 0]);
    assert_eq!(progress(&place).len(), 1, "the second run had nothing to do");
}

#[test]
fn one_run_fires_what_its_own_last_events_made_due() {
    let place = event_by_event("facts-event", "function = 'max-event-time'");
    place.write("input.jsonl", &(event("a", 15_000) + &event("b", 31_000)));
    assert_eq!(place.run(&INPUT), [json!(["a", 15]), json!(["b", 31]), json!(["a", -1])]);
}

#[test]
fn an_event_is_late_by_the_watermark_of_the_batch_before() {
    let place = event_by_event("facts-event", "");
    let watermark = || script("a", 25_000, json!([{ "call": "current-watermark" }]));
    place.write("input.jsonl", &(event("a", 20_000) + &event("a", 30_000) + &watermark() + &watermark()));
    // The first of the two is before the watermark that it reads, and still not late.
    assert_eq!(place.run(&INPUT), [json!([]), json!([]), json!([30_000])]);
    let dropped = |record: &Value| record["stateOperators"][0]["numRowsDroppedByWatermark"].as_u64();
    assert_eq!(progress(&place).iter().map(dropped).collect::<Vec<_>>(), [Some(0), Some(0), Some(0), Some(1)]);
}

/// A rule whose watermark stands at 5 s after what it has read.
fn paused(settings: &str) -> Place {
    let place = place("facts-event", &format!("event-time = '/at'\n{settings}"), "function = 'max-event-time'");
    place.write("input/1.jsonl", &(event("a", 11_000) + &event("a", 15_000)));
    place
}

#[test]
fn what_is_late_after_a_pause_is_late_also_when_the_host_was_killed_in_it() {
    let place = paused("watermark-delay = '10s'");
    let args = ["run", ".", "--quiet", "--follow", "--data", "data", "--output", "output", "--input", "input"];
    let process = Process::start(&mut place.keyfold(&args));
    // What it did is shown when it waits.
    wait_until("it waits", || {
        let shown = place.finish(&["progress", "data", "--json"]);
        shown.code == Some(0) && !shown.stdout.is_empty()
    });
    process.kill();
    place.write("input/2.jsonl", &(event("a", 4_000) + &event("a", 10_000)));
    assert_eq!(place.run(&["--input", "input"]), [json!(["a", 15])]);
    let last = progress(&place).pop().expect("a batch has run");
    assert_eq!(last["stateOperators"][0]["numRowsDroppedByWatermark"], 1);
}

#[test]
fn nothing_is_late_by_a_watermark_that_was_never_reached() {
    let place = paused("");
    place.run(&["--input", "input", "--watermark-delay", "10s"]);
    place.write("input/2.jsonl", &event("b", 6_000));
    assert_eq!(place.run(&["--input", "input", "--watermark-delay", "0s"]), [json!(["b", 6])]);
}

#[test]
fn a_timeout_in_the_past_is_refused_and_the_one_that_was_set_stays() {
    let place = event_by_event("facts-event", "");
    let set = |at_ms: i64| json!({ "call": "set-timeout-timestamp", "with": at_ms });
    place.write("input.jsonl", &(event("a", 30_000) + &script("a", 30_001, json!([set(40_000), set(29_999)]))));
    assert_eq!(place.run(&INPUT), [json!([]), json!([null, "IllegalArgumentException"])]);
    assert_eq!(place.rows()[0]["timeout"]["ms"], 40_000);
}

#[test]
fn a_watermark_goes_with_every_kind_of_timeout() {
    for guest in ["facts-none", "facts-processing", "facts-event"] {
        let place = place(guest, "event-time = '/at'\nwatermark-delay = '10s'", "function = 'count-to-three'");
        place.write("input.jsonl", &event("a", 1_000));
        assert_eq!(place.run(&INPUT), [json!(["a", 1])], "{guest}");
    }
}

#[test]
fn an_output_that_begins_with_null_leaves_outputs_and_states_whole() {
    let place = place("facts-none", "batch-events = 1", "");
    let state = json!({ "first": null, "second": 2 });
    let update = json!([{ "call": "update", "with": state }, { "call": "get" }]);
    place.write("input.jsonl", &(script("a", 0, update) + &script("a", 0, json!([{ "call": "get" }]))));
    assert_eq!(place.run(&INPUT), [json!([null, state]), json!([state])]);
}

#[test]
fn a_state_of_a_schema_that_a_new_version_does_not_read_fails_its_key_and_is_kept() {
    let mut old = Setup::guest("facts-none").open();
    old.run(&[script("a", 1_000, json!([{ "call": "update", "with": 5 }]))]);
    let before = old.rows();
    let mut new = Setup::guest("facts-schema-2").open_in(old.close());
    let batch = new.run(&[script("a", 2_000, json!([{ "call": "remove" }])), script("b", 2_000, json!([]))]);
    let reasons: Vec<_> = batch.letters.iter().map(|letter| (letter.key.as_deref(), letter.reason.as_str())).collect();
    assert_eq!(reasons, [(Some("a"), "unreadable-state")]);
    assert_eq!(batch.outputs, ["[]"], "the other key is called");
    assert_eq!(new.rows(), before);
}

#[test]
fn a_replay_has_state_and_a_batch_query_has_to_be_asked_for() {
    let place = place("facts-none", "partitions = 1", "function = 'count-to-three'");
    place.write("input.jsonl", &(event("a", 0) + &event("a", 0) + &event("b", 0)));
    let stream = place.run(&[&INPUT[..], &["--batch-events", "1"]].concat());
    assert_eq!(stream, [json!(["a", 1]), json!(["a", 2]), json!(["b", 1])]);
    let query = place.finish(&[&["run", ".", "--quiet", "--batch"], &INPUT[..]].concat()).ok().json_lines();
    assert_eq!(query, [json!(["a", 2]), json!(["b", 1])]);
}

#[test]
fn an_initial_state_goes_with_a_batch_query() {
    let place = place("facts-none", "partitions = 1", "function = 'initial-count'");
    place.write("input.jsonl", &(event("a", 0) + &event("new", 0)));
    place.write("states.jsonl", "{\"key\":\"a\",\"value\":5}\n{\"key\":\"only\",\"value\":2}\n");
    let args = ["run", ".", "--quiet", "--batch", "--initial-state", "states.jsonl"];
    let outputs = place.finish(&[&args[..], &INPUT].concat()).ok().json_lines();
    assert_eq!(outputs, [json!(["a", ["a"], 6]), json!(["new", ["new"], 1]), json!(["only", [], 2])]);
}

/// Spark keeps only the watermark itself: after a restart it stands still until every input has brought something.
#[test]
fn the_watermark_goes_on_after_a_restart_though_an_input_is_silent() {
    let place =
        place("facts-event", "event-time = '/at'\n[inputs.left]\npath = 'left'\n[inputs.right]\npath = 'right'", "");
    place.write("left/1.jsonl", &event("a", 200_000));
    place.write("right/1.jsonl", &event("a", 190_000));
    place.run(&[]);
    place.write("right/2.jsonl", &event("a", 195_000));
    place.run(&[]);
    place.write("right/3.jsonl", &script("a", 196_000, json!([{ "call": "current-watermark" }])));
    assert_eq!(place.run(&[]), [json!([195_000])]);
}

#[test]
fn events_of_a_key_come_in_the_order_of_their_source() {
    let place = place("facts-none", "partitions = 4\nbatch-events = 50", "function = 'rows-with-previous'");
    let events = (0..400).map(|n| format!("{{\"key\":\"k{}\",\"v\":{n}}}\n", n * n % 7)).collect::<String>();
    place.write("input.jsonl", &events);
    let outputs = place.run(&INPUT);
    assert_eq!(outputs.len(), 400);
    for key in (0..7).map(|key| format!("k{key}")) {
        let of_key = outputs.iter().filter(|output| output[0] == key.as_str());
        assert!(of_key.map(|output| output[1].as_i64()).is_sorted(), "{key}: {outputs:?}");
    }
}
