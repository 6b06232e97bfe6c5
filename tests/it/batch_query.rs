//! Batch queries: the rule once over all of its input, without state.

use crate::support::command;
use crate::support::place::Place;
use crate::support::process::{Process, wait_until};
use crate::support::rules::{Setup, event};
use anyhow::Result;
use keyfold::event::{InputId, OffsetRange, Position, Positions, Record, RecordBatch};
use keyfold::source::{ReadLimit, ReadStatus, Source, SourceStatus};
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
        // One batch tells of the line that is no event.
        let batches = run.stderr.lines().filter(|line| line.starts_with("{\"id\"")).count() - 1;
        let dead = run.stderr.matches("\"numDeadLetters\":1").count();
        found.push((counts(&run.json_lines()), batches > 1, dead));
    }
    let [(whole, false, 1), (passes, true, 1)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(whole, passes);
    assert_eq!(whole.values().sum::<u64>(), 400);
}

#[test]
fn what_fails_is_shown_because_nothing_is_kept_to_look_at() {
    let component = command::target().join("guests/fail.wasm");
    let place = Place::with_rule(&component, "key = '/key'\n");
    for (strays, letters) in [(9, 10), (200, 100)] {
        let groups = "{\"key\":\"bad\"}\n{\"key\":\"good\"}\n".to_owned();
        place.write("input.jsonl", &(groups + &"nonsense\n".repeat(strays)));
        let run = place.finish(&["run", ".", "--batch", "--input", "input.jsonl"]).ok();
        assert_eq!(run.stdout, "{\"key\":\"good\",\"count\":1}\n");
        let shown: Vec<Value> = run.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(shown.len(), letters, "{}", run.stderr);
        assert_eq!(shown.iter().any(|letter| letter["key"] == "bad"), strays == 9, "{}", run.stderr);
        assert!(run.stderr.contains(&format!("{} dead letters; the first 100", strays + 1)), "{}", run.stderr);
    }
}

#[test]
fn a_run_that_is_stopped_early_gives_no_outputs() {
    let place = Place::counting("key = '/user_id'\n");
    let mut call = place.keyfold(&["run", ".", "--batch", "--output", "output", "--input", "-"]);
    call.stdin(std::process::Stdio::piped());
    let mut process = Process::start(&mut call);
    process.write(lines(10).as_bytes());
    wait_until("it listens", || place.path("output").exists());
    process.terminate().with_code(1);
    assert_eq!(place.outputs(), [] as [Value; 0]);
}

/// Gives one line more each time it is read from the beginning.
struct Growing {
    lines: u32,
    read: bool,
}

impl Source for Growing {
    fn seek(&mut self, _: &Positions) -> Result<()> {
        (self.lines, self.read) = (self.lines + 1, false);
        Ok(())
    }

    fn read(&mut self, _: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        if !std::mem::replace(&mut self.read, true) {
            let from = Position::default();
            let to = Position { offset: self.lines.into(), line: self.lines.into() };
            batch.ranges.push(OffsetRange { input: InputId(0), file: "growing".to_owned(), from, to });
            for number in 0..self.lines {
                let start = batch.text.len() as u32;
                batch.text.extend(event(&format!("k{number}"), 0).into_bytes());
                let end = batch.text.len() as u32;
                batch.records.push(Record { start, end, range: 0, line: u64::from(number) + 1 });
            }
        }
        Ok(ReadStatus::Ended)
    }

    fn replay(&mut self, _: &[OffsetRange], _: &mut RecordBatch) -> Result<()> {
        unreachable!("a batch query is not continued after a crash")
    }

    fn status(&self) -> Vec<SourceStatus> {
        Vec::new()
    }
}

#[test]
fn input_that_changes_between_passes_is_refused() {
    for (bytes_max, refused) in [(3_000, true), (1_000_000, false)] {
        let mut trial = Setup { batch_query: Some(bytes_max), ..Setup::guest("facts-none") }.open();
        let ran = trial.run_source(&mut Growing { lines: 100, read: false });
        let message = ran.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(message.contains("the input has changed"), refused, "{message}");
    }
}

#[test]
fn a_batch_query_of_a_rule_that_is_set_up_as_a_stream() {
    let place = Place::counting("key = '/user_id'\ndata = 'data'\nfollow = true\ntrigger = '1s'\n");
    place.write("input.jsonl", &lines(97));
    let found = counts(&place.finish(&["run", ".", "--batch", "--quiet", "--input", "input.jsonl"]).ok().json_lines());
    assert_eq!(found.len(), 97);
    assert!(!place.path("data").exists());
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
