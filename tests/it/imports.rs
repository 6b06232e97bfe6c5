//! States that are put in from outside: when a rule is started, and later.

use crate::support::host::{Fault, Stream};
use crate::support::place::Place;
use crate::support::process::{Process, wait_until};
use crate::support::{command, data, folder};
use keyfold::description::StateFormat;
use keyfold::imports;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn counted(key: &str, count: u64) -> Value {
    json!({"key": key, "count": count})
}

fn place() -> Place {
    let place = Place::counting("key = '/user_id'\npartitions = 3\n");
    place.write("input/1.jsonl", "{\"user_id\":\"ada\"}\n{\"user_id\":\"new\"}\n");
    place.write("states.jsonl", "{\"key\":\"ada\",\"value\":10}\n{\"key\":\"only\",\"value\":20}\n");
    place
}

const INITIAL: [&str; 4] = ["--input", "input", "--initial-state", "states.jsonl"];

fn sorted(mut outputs: Vec<Value>) -> Vec<Value> {
    outputs.sort_by_key(|output| output["key"].to_string());
    outputs
}

#[test]
fn the_first_batch_calls_every_key_of_the_initial_state_and_a_restart_does_not_again() {
    let place = place();
    let expected = [counted("ada", 11), counted("new", 1), counted("only", 20)];
    assert_eq!(sorted(place.run(&INITIAL)), expected);
    place.write("input/2.jsonl", "{\"user_id\":\"only\"}\n");
    assert_eq!(place.run(&INITIAL), [counted("only", 21)]);
}

#[test]
fn a_restart_may_name_the_same_states_in_another_form_or_none_any_more_but_not_others() {
    let place = place();
    place.run(&INITIAL);
    place.write("states.jsonl", "\n {\"key\":\"ada\",\"value\":10} \r\n{\"key\":\"only\",\"value\":20}");
    assert_eq!(place.run(&INITIAL), [] as [Value; 0]);
    place.write("states.jsonl", "{\"key\":\"ada\",\"value\":11}\n");
    let args = [&["run", ".", "--data", "data", "--output", "output"], &INITIAL[..]].concat();
    place.finish(&args).fails_with(&["another initial state", "keyfold state import"]);
    fs::remove_file(place.path("states.jsonl")).expect("it is there");
    assert_eq!(place.run(&INITIAL), [] as [Value; 0]);
}

#[test]
fn an_initial_state_without_any_event_is_applied() {
    let place = place();
    place.write("empty.jsonl", "");
    let outputs = place.run(&["--input", "empty.jsonl", "--initial-state", "states.jsonl"]);
    assert_eq!(sorted(outputs), [counted("ada", 10), counted("only", 20)]);
}

#[test]
fn an_initial_state_is_for_a_new_folder() {
    let place = place();
    place.run(&["--input", "input"]);
    let args = [&["run", ".", "--data", "data", "--output", "output"], &INITIAL[..]].concat();
    place.finish(&args).fails_with(&["has run already", "keyfold state import"]);
}

#[test]
fn a_file_that_is_not_right_is_refused_before_anything_runs() {
    let place = place();
    for (lines, parts) in [
        ("{\"key\":\"a\",\"value\":1}\n{\"key\":\"a\",\"value\":2}\n", ["lines 1 and 2", "key a"]),
        ("{\"key\":\"a\",\"value\":1}\n\n{\"value\":1}\n", ["line 3", "key"]),
    ] {
        place.write("states.jsonl", lines);
        place
            .finish(&[&["run", ".", "--data", "data", "--output", "output"], &INITIAL[..]].concat())
            .fails_with(&parts);
        assert_eq!(place.outputs().len(), 0);
    }
    let stream = ["run", ".", "--data", "data", "--input", "input", "--initial-state", "-"];
    place.finish(&stream).fails_with(&["not from a stream"]);
}

#[test]
fn more_states_than_a_batch_takes_come_before_the_first_event() {
    let place = place();
    let states: String = (0..50).map(|n| format!("{{\"key\":\"k{n}\",\"value\":100}}\n")).collect();
    place.write("states.jsonl", &states);
    place.write("input/1.jsonl", &(0..50).map(|n| format!("{{\"user_id\":\"k{n}\"}}\n")).collect::<String>());
    let outputs = place.run(&[&INITIAL[..], &["--batch-events", "7"]].concat());
    let rows = place.rows();
    assert!(rows.len() == 50 && rows.iter().all(|row| row["value"] == 101), "{rows:?}");
    assert!(outputs.iter().all(|output| output["count"] == 100 || output["count"] == 101), "{outputs:?}");
}

#[test]
fn imported_states_replace_those_that_are_there_and_their_keys_are_called() {
    let place = place();
    place.run(&["--input", "input"]);
    place.finish(&["state", "import", "data", "states.jsonl"]).ok();
    assert_eq!(sorted(place.run(&["--input", "input"])), [counted("ada", 10), counted("only", 20)]);
    assert_eq!(place.run(&["--input", "input"]), [] as [Value; 0], "it is applied once");
}

#[test]
fn imports_whose_files_are_deleted_do_not_hide_later_ones() {
    let place = place();
    place.run(&["--input", "input"]);
    for count in [40, 50] {
        place.write("states.jsonl", &format!("{{\"key\":\"ada\",\"value\":{count}}}\n"));
        place.finish(&["state", "import", "data", "states.jsonl"]).ok();
        assert_eq!(place.run(&["--input", "input"]), [counted("ada", count)]);
        fs::remove_dir_all(place.path("data/imports")).expect("it is there");
    }
}

/// A rule with forty states that have timeouts, and one that has run and has none.
pub fn full_and_empty() -> (Place, Place) {
    let component = command::target().join("guests/event-time-timeout.wasm");
    let settings = "key = '/key'\nevent-time = '/at'\n";
    let (old, new) = (Place::with_rule(&component, settings), Place::with_rule(&component, settings));
    let events: String = (1..=40).map(|n| format!("{{\"key\":\"k{n}\",\"at\":{}}}\n", n * 100)).collect();
    old.write("input.jsonl", &events);
    new.write("input.jsonl", "");
    old.run(&["--input", "input.jsonl"]);
    new.run(&["--input", "input.jsonl"]);
    (old, new)
}

#[test]
fn what_state_ls_prints_can_be_imported_as_it_is() {
    let (old, new) = full_and_empty();
    let listed = old.finish(&["state", "ls", "data"]).ok().stdout;
    new.write("listed.jsonl", &listed);
    let said = new.finish(&["state", "import", "data", "listed.jsonl", "--as-is"]).ok();
    assert!(said.stderr.contains("40"), "{}", said.stderr);
    assert_eq!(new.run(&["--input", "input.jsonl"]), [] as [Value; 0], "the rule was not called");
    assert_eq!(new.finish(&["state", "ls", "data"]).ok().stdout, listed);
    // The timeouts came along.
    new.write("more.jsonl", "{\"key\":\"far\",\"at\":12001}\n");
    let outputs = new.run(&["--input", "input.jsonl", "more.jsonl"]);
    let fired = outputs.iter().filter(|output| output["timed_out"] == true).count();
    assert_eq!(fired, 20, "those before 12001: {outputs:?}");
}

#[test]
fn states_can_be_imported_while_the_rule_runs() {
    let place = place();
    let args = ["run", ".", "--quiet", "--follow", "--data", "data", "--output", "output", "--input", "input"];
    let process = Process::start(&mut place.keyfold(&args));
    wait_until("the events are counted", || place.outputs().len() == 2);
    place.finish(&["state", "import", "data", "states.jsonl"]).ok();
    wait_until("the states are in", || place.outputs().contains(&counted("only", 20)));
    process.terminate().ok();
}

#[test]
fn an_import_into_what_is_no_data_folder_is_refused() {
    let place = place();
    place.finish(&["state", "import", "nowhere", "states.jsonl"]).fails_with(&["nowhere", "data folder"]);
    assert!(!place.path("nowhere").exists());
}

/// Begins with states of half of the users, which are called for them, and of others.
fn import(stream: &Stream, work: &Path) {
    let session = r#"{"start_ms":0,"last_ms":0,"count":1,"hv_count":0,"total_minor":7,"flagged":false}"#;
    let states: String = (0..3000).map(|n| format!("{{\"key\":\"u{n:06}\",\"value\":{session}}}\n")).collect();
    let path = work.join("states.jsonl");
    fs::write(&path, states).expect("the disk has room");
    imports::add_initial(&stream.data, &path, StateFormat::Msgpack, false).expect("the rows are right");
}

#[test]
fn a_crash_during_an_import_gives_the_same_bytes() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 6_000, 4);
    let stream =
        |name: &str| Stream { event_time: Some("/ts"), ..Stream::of_example("card-sessions", work.path(), name) };
    let undisturbed = stream("undisturbed");
    import(&undisturbed, work.path());
    undisturbed.run_to_the_end();
    // 3,000 states and 6,000 events in batches of 1,000: batch 2 is the last with states.
    for fault in (0..5).flat_map(|batch| [Fault::BeforeDelivery(batch), Fault::AfterDelivery(batch)]) {
        let crashed = stream(&format!("{fault:?}"));
        import(&crashed, work.path());
        crashed.run_into(fault);
        crashed.run_to_the_end();
        folder::assert_same_files(&crashed.output, &undisturbed.output, &format!("after {fault:?}"));
        assert_eq!(crashed.states(), undisturbed.states(), "other states after {fault:?}");
        assert_eq!(crashed.dead_letters(), undisturbed.dead_letters(), "after {fault:?}");
    }
}
