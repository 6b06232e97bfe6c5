//! A rule with several inputs: each with its own key, event time, delay, and patience.

use crate::support::command;
use crate::support::place::Place;
use crate::support::process::{Process, wait_until};
use serde_json::{Value, json};

fn event(key: &str, user: &str, second: i64) -> String {
    format!("{{\"{key}\":\"{user}\",\"at\":{}}}\n", second * 1000)
}

/// A rule whose keys time out 10 s after their newest event, with two inputs.
fn place(settings: &str) -> Place {
    let component = command::target().join("guests/event-time-timeout.wasm");
    let place = Place::with_rule(&component, &format!("key = '/key'\nevent-time = '/at'\npartitions = 2\n{settings}"));
    place.write("payments.jsonl", "");
    place.write("logins.jsonl", "");
    place
}

const INPUTS: &str =
    "[inputs.payments]\npath = 'payments.jsonl'\n[inputs.logins]\npath = 'logins.jsonl'\nkey = '/account'\n";

fn timed_out(outputs: &[Value]) -> Vec<String> {
    let keys = outputs.iter().filter(|output| output["timed_out"] == true).map(|output| output["key"].to_string());
    keys.collect()
}

#[test]
fn events_of_all_inputs_with_one_key_meet_in_one_group() {
    let place = place(INPUTS);
    place.write("payments.jsonl", &(event("key", "ada", 1) + &event("key", "bob", 2)));
    place.write("logins.jsonl", &(event("account", "ada", 1) + &event("key", "eve", 2)));
    let outputs = place.run(&[]);
    assert!(outputs.contains(&json!({"key": "ada", "count": 2})), "{outputs:?}");
    let letters = place.finish(&["dead-letters", "data"]).ok().json_lines();
    assert_eq!(letters.len(), 1, "a login is looked up by its own key: {letters:?}");
    let progress = place.finish(&["progress", "data", "--json"]).ok().json_lines();
    let sources = progress[0]["sources"].as_array().expect("each input is a source");
    let rows = |source: &Value| (source["name"].to_string(), source["numInputRows"].as_u64());
    let expected = [("\"logins\"".to_owned(), Some(2)), ("\"payments\"".to_owned(), Some(2))];
    assert_eq!(sources.iter().map(rows).collect::<Vec<_>>(), expected);
}

#[test]
fn small_batches_and_restarts_read_every_event_of_every_input_once() {
    let settings =
        "key = '/user_id'\npartitions = 2\n[inputs.a]\npath = 'a'\n[inputs.b]\npath = 'b'\n[inputs.c]\npath = 'c'\n";
    let place = Place::counting(settings);
    // Two inputs read the same file, which must not confuse them.
    let lines =
        |from: u32, to: u32| (from..to).map(|n| format!("{{\"user_id\":\"u{}\"}}\n", n % 7)).collect::<String>();
    place.write("a/1.jsonl", &lines(0, 50));
    place.write("b/1.jsonl", &lines(0, 9));
    place.write("c/1.jsonl", &lines(0, 20));
    place.run(&["--input", "a=a", "b=a/1.jsonl", "c=c", "--batch-events", "3"]);
    place.write("c/2.jsonl", &lines(20, 40));
    place.run(&["--input", "a=a", "b=a/1.jsonl", "c=c", "--batch-events", "1"]);
    let total: u64 = place.rows().iter().filter_map(|row| row["value"].as_u64()).sum();
    assert_eq!(total, 50 + 50 + 40);
}

#[test]
fn the_slowest_input_holds_the_watermark_back_under_min_and_the_fastest_moves_it_under_max() {
    for (policy, expected) in [("min", &[][..]), ("max", &["\"ada\"", "\"eve\""])] {
        let place = place(INPUTS);
        place.write("payments.jsonl", &(event("key", "ada", 1) + &event("key", "bob", 100)));
        place.write("logins.jsonl", &event("account", "eve", 5));
        let outputs = place.run(&["--watermark-policy", policy]);
        assert_eq!(timed_out(&outputs), expected, "{policy}");
    }
}

#[test]
fn a_folder_keeps_its_inputs_and_its_policy() {
    let place = place(INPUTS);
    place.write("payments.jsonl", &event("key", "ada", 1));
    place.run(&["--watermark-policy", "max"]);
    // Named again or not, it is the same.
    place.run(&[]);
    place.run(&["--watermark-policy", "max"]);
    let run =
        |settings: &[&str]| place.finish(&[&["run", ".", "--data", "data", "--output", "output"], settings].concat());
    run(&["--watermark-policy", "min"]).fails_with(&["watermark policy", "'max' there and 'min' here"]);
    let rule = std::fs::read_to_string(place.path("rule.toml")).expect("it was written");
    place.write("rule.toml", &format!("{rule}[inputs.refunds]\npath = 'payments.jsonl'\n"));
    run(&[]).fails_with(&["'logins payments' there and 'logins payments refunds' here"]);
}

#[test]
fn an_input_without_a_path_is_named() {
    let place = place("[inputs.payments]\n[inputs.logins]\npath = 'logins.jsonl'\n");
    place.finish(&["run", "."]).fails_with(&["input payments", "--input payments=PATH"]);
    place.finish(&["run", ".", "--input", "payments.jsonl"]).fails_with(&["logins, payments", "logins=payments.jsonl"]);
}

#[test]
fn an_idle_input_no_longer_holds_the_others_back() {
    let patient = place(INPUTS);
    let impatient = place(&INPUTS.replace("key = '/account'", "key = '/account'\nidle-after = '300ms'"));
    for place in [&patient, &impatient] {
        place.write("payments.jsonl", &(event("key", "ada", 1) + &event("key", "bob", 100)));
    }
    assert_eq!(timed_out(&patient.run(&[])), [""; 0], "in Spark, and here without idle-after, it waits for ever");
    let args = ["run", ".", "--quiet", "--data", "data", "--output", "output", "--follow"];
    let process = Process::start(&mut impatient.keyfold(&args));
    wait_until("the timeout fired", || !timed_out(&impatient.outputs()).is_empty());
    assert_eq!(timed_out(&impatient.outputs()), ["\"ada\""]);
    // It brings something, counts again, and its event is judged by how far the others have come.
    impatient.write("logins.jsonl", &(event("account", "late", 50) + &event("account", "new", 101)));
    wait_until("the event is counted", || impatient.outputs().contains(&json!({"key": "new", "count": 1})));
    process.terminate().ok();
    assert!(!impatient.outputs().iter().any(|output| output["key"] == "late"), "it came after the watermark");
}
