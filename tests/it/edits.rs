//! States that people change by hand, and dead letters whose events run again.

use crate::imports::full_and_empty;
use crate::support::host::{Fault, Stream};
use crate::support::place::Place;
use crate::support::process::{Process, wait_until};
use crate::support::{command, data, folder};
use keyfold::event::PartitionId;
use keyfold::imports::{self, LetterId, RedrivenEvent};
use keyfold::state::reader::PartitionReader;
use serde_json::{Value, json};

fn place() -> Place {
    let place = Place::counting("key = '/user_id'\npartitions = 3\n");
    place.write("input/1.jsonl", "{\"user_id\":\"ada\"}\n{\"user_id\":\"ada\"}\n{\"user_id\":\"eve\"}\n");
    place
}

fn values(place: &Place) -> Vec<(String, Value)> {
    let mut rows: Vec<_> =
        place.rows().iter().map(|row| (row["key"].as_str().unwrap().to_owned(), row["value"].clone())).collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

fn edits(place: &Place) -> Vec<Value> {
    place.finish(&["state", "edits", "data"]).ok().json_lines()
}

#[test]
fn a_state_that_is_set_or_removed_is_so_from_the_next_batch_on_and_the_rule_is_not_called() {
    let place = place();
    place.run(&["--input", "input"]);
    place.finish(&["state", "set", "data", "ada", "40", "--reason", "counted wrongly"]).ok();
    place.finish(&["state", "set", "data", "new", "7"]).ok();
    place.finish(&["state", "rm", "data", "eve", "nobody"]).ok();
    assert_eq!(values(&place).len(), 2, "nothing has happened yet");
    assert_eq!(place.run(&["--input", "input"]), [] as [Value; 0]);
    assert_eq!(values(&place), [("ada".to_owned(), json!(40)), ("new".to_owned(), json!(7))]);
    place.write("input/2.jsonl", "{\"user_id\":\"ada\"}\n{\"user_id\":\"eve\"}\n");
    place.run(&["--input", "input"]);
    let expected = [("ada".to_owned(), json!(41)), ("eve".to_owned(), json!(1)), ("new".to_owned(), json!(7))];
    assert_eq!(values(&place), expected);
}

#[test]
fn every_edit_is_on_record_with_who_when_why_and_the_batch_that_took_it() {
    let place = place();
    place.run(&["--input", "input"]);
    command::finish(
        place.keyfold(&["state", "set", "data", "ada", "40", "--reason", "counted wrongly"]).env("USER", "grace"),
    )
    .ok();
    place.run(&["--input", "input"]);
    place.finish(&["state", "rm", "data", "ada", "eve"]).ok();
    let [set, rm] = &edits(&place)[..] else { panic!("{:?}", edits(&place)) };
    assert_eq!((set["command"].as_str(), set["by"].as_str()), (Some("set"), Some("grace")));
    assert_eq!(
        (set["reason"].as_str(), set["batch"].as_u64(), set["rows"].as_u64()),
        (Some("counted wrongly"), Some(1), Some(1))
    );
    assert!(set["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{set}");
    assert_eq!(
        (rm["command"].as_str(), rm["rows"].as_u64(), &rm["batch"]),
        (Some("rm"), Some(2), &Value::Null),
        "it waits"
    );
}

#[test]
fn an_edit_keeps_the_timeout_unless_it_is_told_otherwise() {
    let place = Place::with_rule(
        &command::target().join("guests/event-time-timeout.wasm"),
        "key = '/key'\nevent-time = '/at'\n",
    );
    place.write(
        "input.jsonl",
        "{\"key\":\"a\",\"at\":1000}\n{\"key\":\"b\",\"at\":1000}\n{\"key\":\"c\",\"at\":1000}\n",
    );
    place.run(&["--input", "input.jsonl"]);
    let before = place.rows();
    let of = |rows: &[Value], key: &str| rows.iter().find(|row| row["key"] == key).unwrap().clone();
    let state = of(&before, "a")["value"].to_string();
    place.finish(&["state", "set", "data", "a", &state]).ok();
    place.finish(&["state", "set", "data", "b", &state, "--timeout", "none"]).ok();
    place.finish(&["state", "set", "data", "c", &state, "--timeout", "event-time=77777"]).ok();
    place.run(&["--input", "input.jsonl"]);
    let after = place.rows();
    assert!(of(&before, "a")["timeout"].is_object());
    assert_eq!(of(&after, "a")["timeout"], of(&before, "a")["timeout"]);
    assert_eq!(of(&after, "b")["timeout"], Value::Null);
    assert_eq!(of(&after, "c")["timeout"]["ms"], 77777);
}

#[test]
fn an_edit_that_cannot_be_meant_is_refused() {
    let place = place();
    place.run(&["--input", "input"]);
    for (args, part) in [
        (&["state", "set", "data", "ada", "nonsense"][..], "not JSON"),
        (&["state", "set", "data", "ada", "null"], "keyfold state rm"),
        (&["state", "set", "data", "ada", "1", "--timeout", "soon"], "event-time=MS"),
        (&["state", "set", "data", "ada", "0g", "--hex"], "hexadecimal"),
        (&["state", "set", "data", "ada", "1", "--schema", "0"], "schema"),
        (&["state", "rm", "nowhere", "ada"], "data folder"),
    ] {
        place.finish(args).fails_with(&[part]);
    }
    assert!(edits(&place).is_empty());
}

#[test]
fn what_is_exported_and_imported_is_the_same_to_the_byte() {
    let (old, new) = full_and_empty();
    let exported = new.path("states.jsonl");
    old.finish(&["state", "export", "data", "--output", exported.to_str().unwrap()]).ok();
    new.finish(&["state", "import", "data", "states.jsonl", "--as-is"]).ok();
    new.run(&["--input", "input.jsonl"]);
    let bytes = |place: &Place| {
        let mut rows = Vec::new();
        for partition in (0..4).map(PartitionId) {
            let reader = PartitionReader::open(&place.path("data"), partition).unwrap();
            let each = |row| {
                rows.push(row);
                Ok(())
            };
            reader.scan(each).unwrap();
        }
        rows
    };
    assert!(bytes(&old).len() == 40 && bytes(&new) == bytes(&old));
    let lines = new.finish(&["state", "export", "data"]).ok().stdout;
    assert_eq!(lines, std::fs::read_to_string(&exported).unwrap());
}

#[test]
fn edits_take_effect_while_the_rule_runs() {
    let place = place();
    let args = ["run", ".", "--quiet", "--follow", "--data", "data", "--output", "output", "--input", "input"];
    let process = Process::start(&mut place.keyfold(&args));
    wait_until("the events are counted", || place.outputs().len() == 2);
    place.finish(&["state", "set", "data", "ada", "40"]).ok();
    wait_until("the state is set", || values(&place).contains(&("ada".to_owned(), json!(40))));
    process.terminate().ok();
}

/// Counts, with so little fuel that every group fails.
const STARVED: &str = "key = '/user_id'\npartitions = 3\n[limits]\nfuel-per-group = 1\nfuel-per-event = 0\n";
const FED: &str = "key = '/user_id'\npartitions = 3\n";

fn letters(place: &Place, args: &[&str]) -> Vec<Value> {
    place.finish(&[&["dead-letters", "data"], args].concat()).ok().json_lines()
}

fn feed(place: &Place) {
    let component = command::example("running-count").join("rule.wasm");
    place.write("rule.toml", &format!("component = {component:?}\n{FED}"));
}

#[test]
fn events_of_dead_letters_run_again_once_and_the_letters_are_kept_as_done() {
    let place = Place::counting(STARVED);
    place.write("input/1.jsonl", "{\"user_id\":\"ada\"}\n{\"user_id\":\"ada\"}\n{\"user_id\":\"eve\"}\nnonsense\n");
    place.run(&["--input", "input"]);
    let failed = letters(&place, &[]);
    assert_eq!(failed.len(), 3, "{failed:?}");
    feed(&place);
    let said = place.finish(&["dead-letters", "data", "--re-drive", "--key", "ada", "--why", "more fuel"]).ok();
    assert!(said.stderr.contains("2 events run again"), "{}", said.stderr);
    // Again before the batch that takes them: they do not run twice.
    let said = place.finish(&["dead-letters", "data", "--re-drive", "--key", "ada"]).ok();
    assert!(
        said.stderr.contains("0 events run again") && said.stderr.contains("2 events were sent before"),
        "{}",
        said.stderr
    );
    place.run(&["--input", "input"]);
    assert_eq!(values(&place), [("ada".to_owned(), json!(2))]);
    let left = letters(&place, &[]);
    assert!(left.len() == 2 && left.iter().all(|letter| letter["key"] != "ada"), "{left:?}");
    let all = letters(&place, &["--all"]);
    let done: Vec<_> = all.iter().filter(|letter| letter["re_driven"] == 1).collect();
    assert!(all.len() == 3 && done.len() == 1 && done[0]["key"] == "ada", "{all:?}");
    assert_eq!(edits(&place)[0]["reason"], "more fuel");
}

#[test]
fn partitions_do_not_become_fewer_while_events_of_their_letters_wait() {
    let place = Place::counting(STARVED);
    place.write("input/1.jsonl", "{\"user_id\":\"ada\"}\n{\"user_id\":\"eve\"}\n");
    place.run(&["--input", "input"]);
    feed(&place);
    place.finish(&["dead-letters", "data", "--re-drive"]).ok();
    place.finish(&["state", "split", "data", "--partitions", "2"]).fails_with(&["wait to run again", "split then"]);
    place.run(&["--input", "input"]);
    place.finish(&["state", "split", "data", "--partitions", "2"]).ok();
    assert_eq!(values(&place), [("ada".to_owned(), json!(1)), ("eve".to_owned(), json!(1))]);
    assert_eq!(letters(&place, &["--all"]).len(), 2);
}

#[test]
fn an_event_that_fails_again_is_a_new_letter_that_names_the_line_that_it_came_from() {
    let place = Place::counting(STARVED);
    place.write("input/1.jsonl", "{\"user_id\":\"ada\"}\nnonsense\n");
    place.run(&["--input", "input"]);
    let places = |letters: &[Value]| {
        let mut places: Vec<_> =
            letters.iter().map(|letter| (letter["reason"].clone(), letter["events"].clone())).collect();
        places.sort_by_key(|place| place.0.to_string());
        places
    };
    let before = letters(&place, &[]);
    assert_eq!(before.len(), 2);
    place.finish(&["dead-letters", "data", "--re-drive"]).ok();
    place.run(&["--input", "input"]);
    let after = letters(&place, &[]);
    assert_eq!(places(&after), places(&before));
    assert!(after.iter().all(|letter| letter["batch"] == 1), "{after:?}");
    // And it can run again.
    feed(&place);
    place.finish(&["dead-letters", "data", "--re-drive", "--reason", "out-of-fuel"]).ok();
    place.run(&["--input", "input"]);
    assert_eq!(values(&place), [("ada".to_owned(), json!(1))]);
}

#[test]
fn an_event_that_runs_again_is_not_late_and_does_not_move_the_watermark() {
    let component = command::target().join("guests/event-time-timeout.wasm");
    let settings = |limits: &str| format!("key = '/key'\nevent-time = '/at'\n{limits}");
    let place = Place::with_rule(&component, &settings("[limits]\nfuel-per-group = 1\nfuel-per-event = 0\n"));
    place.write("input/1.jsonl", "{\"key\":\"old\",\"at\":495000}\n");
    place.run(&["--input", "input"]);
    place.write("rule.toml", &format!("component = {component:?}\n{}", settings("")));
    place.write("input/2.jsonl", "{\"key\":\"far\",\"at\":500000}\n");
    place.run(&["--input", "input"]);
    place.write("input/3.jsonl", "{\"key\":\"near\",\"at\":500001}\n");
    place.finish(&["dead-letters", "data", "--re-drive"]).ok();
    let outputs = place.run(&["--input", "input"]);
    assert!(outputs.iter().any(|output| output["key"] == "old"), "the rule was called for it: {outputs:?}");
    assert_eq!(letters(&place, &[]), [] as [Value; 0]);
}

#[test]
fn a_crash_while_events_run_again_gives_the_same_bytes() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 4_000, 4);
    data::spoil(&work.path().join("input/events-000.jsonl"));
    let begin = |name: &str| {
        let stream = Stream { event_time: Some("/ts"), ..Stream::of_example("card-sessions", work.path(), name) };
        stream.run_into(Fault::BeforeDelivery(2));
        let mut events = Vec::new();
        for partition in (0..stream.partitions).map(PartitionId) {
            let reader = PartitionReader::open(&stream.data, partition).unwrap();
            let each = |kept: keyfold::state::KeptLetter| {
                let letter = LetterId { partition, batch: kept.batch, number: kept.number };
                events.extend(kept.letter.events.into_iter().filter_map(|event| {
                    Some(RedrivenEvent {
                        text: event.text,
                        input: event.input?,
                        file: event.file,
                        line: event.line,
                        letter,
                    })
                }));
                Ok(())
            };
            reader.kept_letters(each).unwrap();
        }
        let driven = imports::re_drive(&stream.data, &events, None).unwrap();
        assert!(driven > 5, "{driven} events run again");
        stream
    };
    let undisturbed = begin("undisturbed");
    undisturbed.run_to_the_end();
    for fault in (2..6).flat_map(|batch| [Fault::BeforeDelivery(batch), Fault::AfterDelivery(batch)]) {
        let crashed = begin(&format!("{fault:?}"));
        let _ = crashed.run(fault);
        crashed.run_to_the_end();
        folder::assert_same_files(&crashed.output, &undisturbed.output, &format!("after {fault:?}"));
        assert_eq!(crashed.states(), undisturbed.states(), "other states after {fault:?}");
        assert_eq!(crashed.dead_letters(), undisturbed.dead_letters(), "after {fault:?}");
    }
}
