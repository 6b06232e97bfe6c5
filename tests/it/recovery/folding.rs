//! States are folded from deltas into the table a few at a time: whenever one looks, it is the same state.

use crate::support::host::{Fault, Stream};
use crate::support::{command, data};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

const BATCH_EVENTS: usize = 40;
/// More than three rotations of 64 commits: every key group is folded, written again, and folded again.
const EVENTS: u64 = 9_000;

fn input() -> (TempDir, Vec<String>) {
    let work = tempfile::tempdir().expect("a folder can be made");
    let texts = data::card_sessions(&work.path().join("input"), EVENTS, 6);
    let lines = texts.iter().flat_map(|text| text.lines().map(str::to_owned)).collect();
    (work, lines)
}

/// How often each key occurs in these lines.
fn counts(lines: &[String]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in lines {
        let event: Value = serde_json::from_str(line).expect("generated lines are JSON");
        *counts.entry(event["user_id"].as_str().expect("it has a user").to_owned()).or_default() += 1;
    }
    counts
}

/// How many batches are committed. A partition without events in a batch has nothing to commit.
fn batches(stream: &Stream) -> usize {
    stream.committed().iter().flatten().map(|batch| batch.0 as usize + 1).max().unwrap_or(0)
}

/// What `keyfold state ls` says.
fn listed(data: &Path) -> BTreeMap<String, u64> {
    let states = command::finish(command::keyfold(["state", "ls"]).arg(data)).ok().json_lines();
    let of = |state: &Value| {
        let key = state["key"].as_str().expect("a key is text").to_owned();
        (key, state["value"].as_u64().expect("the state of running-count is its count"))
    };
    let found: BTreeMap<String, u64> = states.iter().map(of).collect();
    assert_eq!(found.len(), states.len(), "no key is listed twice");
    found
}

#[test]
fn states_are_the_same_before_while_and_after_they_are_folded() {
    let (work, lines) = input();
    let stream = Stream { batch_events: BATCH_EVENTS, ..Stream::of_example("running-count", work.path(), "small") };
    for batch in [0, 30, 63, 64, 65, 100, 150, 199] {
        stream.run_into(Fault::BeforeDelivery(batch));
        let handled = batches(&stream) * BATCH_EVENTS;
        assert!(handled > batch as usize * BATCH_EVENTS);
        assert_eq!(listed(&stream.data), counts(&lines[..handled]), "after batch {batch}");
    }
    stream.run_to_the_end();
    assert!(batches(&stream) > 200, "{} batches are too few to fold everything three times", batches(&stream));
    assert_eq!(listed(&stream.data), counts(&lines));

    let whole = Stream { batch_events: usize::MAX, ..Stream::of_example("running-count", work.path(), "whole") };
    whole.run_to_the_end();
    assert_eq!(stream.states(), whole.states());
}

#[test]
fn one_key_is_the_same_alone_and_in_the_list() {
    let (work, lines) = input();
    let stream = Stream { batch_events: BATCH_EVENTS, ..Stream::of_example("running-count", work.path(), "keys") };
    stream.run_into(Fault::BeforeDelivery(120));
    let counts = counts(&lines[..batches(&stream) * BATCH_EVENTS]);
    for key in counts.keys().step_by(counts.len() / 8) {
        let got = command::finish(command::keyfold(["state", "get"]).arg(&stream.data).arg(key)).ok().json_lines();
        assert_eq!((got[0]["key"].as_str(), got[0]["value"].as_u64()), (Some(key.as_str()), counts.get(key).copied()));
    }
    let absent = command::finish(command::keyfold(["state", "get"]).arg(&stream.data).arg("nobody"));
    absent.fails_with(&["the key nobody has no state"]);
}
