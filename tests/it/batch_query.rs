//! Batch queries: the rule once over all of its input, without state.

use crate::support::command;
use crate::support::place::Place;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn lines(count: u32) -> String {
    (0..count).map(|n| format!("{{\"user_id\":\"u{}\",\"n\":{n}}}\n", n % 97)).collect()
}

fn counts(stdout: &[Value]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for output in stdout {
        let before = counts.insert(output["key"].to_string(), output["count"].as_u64().expect("it is a count"));
        assert_eq!(before, None, "{} was called twice", output["key"]);
    }
    counts
}

#[test]
fn every_key_is_called_once_with_all_its_events() {
    let place = Place::counting("key = '/user_id'\nbatch-events = 10\n");
    place.write("input/a.jsonl", &lines(500));
    place.write("input/b.jsonl", &lines(500));
    let found = counts(&place.finish(&["run", ".", "--batch", "--quiet", "--input", "input"]).ok().json_lines());
    assert_eq!((found.len(), found.values().sum::<u64>()), (97, 1000));
    let again = counts(&place.finish(&["run", ".", "--batch", "--quiet", "--input", "input"]).ok().json_lines());
    assert_eq!(again, found, "nothing was kept");
}

#[test]
fn input_that_does_not_fit_into_memory_is_read_in_several_passes() {
    let whole = Place::counting("key = '/user_id'\nbatch = true\n");
    let passes = Place::counting("key = '/user_id'\nbatch = true\nbatch-bytes = 3000\n");
    let mut found = Vec::new();
    for place in [&whole, &passes] {
        place.write("input/a.jsonl", &(lines(400) + "nonsense\n"));
        let run = place.finish(&["run", ".", "--input", "input", "--json"]).ok();
        let batches = run.stderr.lines().filter(|line| line.starts_with('{')).count();
        let dead = run.stderr.matches("\"numDeadLetters\":1").count();
        found.push((counts(&run.json_lines()), batches > 1, dead));
    }
    let [(whole, false, 1), (passes, true, 1)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(whole, passes);
    assert_eq!(whole.values().sum::<u64>(), 400);
}

#[test]
fn a_key_that_does_not_fit_into_memory_is_an_error_that_says_what_to_do() {
    let place = Place::counting("key = '/user_id'\nbatch-bytes = 1000\n");
    place.write("input.jsonl", &"{\"user_id\":\"hot\"}\n".repeat(200));
    place.finish(&["run", ".", "--batch", "--input", "input.jsonl"]).fails_with(&["1000 bytes", "batch-bytes"]);
}

#[test]
fn settings_of_a_stream_are_refused() {
    let place = Place::counting("key = '/user_id'\n");
    place.write("input.jsonl", &lines(3));
    for (flags, part) in [
        (&["--data", "data"][..], "keeps no state"),
        (&["--follow"], "follow waits for more"),
        (&["--trigger", "available-now"], "no trigger"),
    ] {
        place.finish(&[&["run", ".", "--batch", "--input", "input.jsonl"], flags].concat()).fails_with(&[part]);
    }
}

#[test]
fn standard_input_can_be_read_in_several_passes() {
    let place = Place::counting("key = '/user_id'\nbatch-bytes = 3000\n");
    let mut call = place.keyfold(&["run", ".", "--batch", "--quiet", "--input", "-"]);
    place.write("input.jsonl", &lines(300));
    call.stdin(std::fs::File::open(place.path("input.jsonl")).expect("it was written"));
    let found = counts(&command::finish(&mut call).ok().json_lines());
    assert_eq!(found.values().sum::<u64>(), 300);
}

#[test]
fn timeouts_may_be_set_and_never_fire() {
    let component = command::target().join("guests/event-time-timeout.wasm");
    let place = Place::with_rule(&component, "key = '/key'\nevent-time = '/at'\n");
    let events: String = (0..3).map(|n| format!("{{\"key\":\"k{n}\",\"at\":{}}}\n", n * 1_000_000)).collect();
    place.write("input.jsonl", &events);
    let outputs = place.finish(&["run", ".", "--batch", "--quiet", "--input", "input.jsonl"]).ok().json_lines();
    assert_eq!(outputs.len(), 3, "{outputs:?}");
    assert!(outputs.iter().all(|output| output["count"] == json!(1)), "{outputs:?}");
}
