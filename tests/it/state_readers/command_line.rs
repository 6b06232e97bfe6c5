//! `keyfold state ls|get --batch`, `changes` and `metadata`.

use super::NOTHING;
use crate::support::host::{Fault, Stream};
use crate::support::rules::{Setup, event};
use crate::support::{command, data, folder};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

fn state(name: &str, data: &Path, args: &[&str]) -> command::Finished {
    command::finish(command::keyfold(["state", name]).arg(data).args(args))
}

/// Two keys in two partitions: counted in batches 0 and 1, gone after batch 2 but for a new one.
fn three_batches() -> TempDir {
    let mut trial = Setup { partitions: 2, ..Setup::guest("event-time-timeout") }.open();
    trial.run(&[event("a", 1_000), event("b", 2_000)]);
    trial.run(&[event("a", 3_000)]);
    trial.run_with_watermark(&[event("stateless", 60_000)], Some(50_000));
    trial.close()
}

#[test]
fn the_state_can_be_listed_as_of_an_earlier_batch() {
    let data = three_batches();
    let timeout = |ms: i64, time: &str| json!({"clock": "event-time", "ms": ms, "time": time});
    let row = |key: &str, count: u64, partition: u32, timeout: Value| json!({"key": key, "value": {"count": count}, "partition_id": partition, "schema": 1, "timeout": timeout});
    let (first, second) = (timeout(11_000, "1970-01-01T00:00:11.000Z"), timeout(12_000, "1970-01-01T00:00:12.000Z"));
    let third = timeout(13_000, "1970-01-01T00:00:13.000Z");
    let at = |batch: &str| state("ls", data.path(), &["--batch", batch]).ok().json_lines();
    assert_eq!(at("0"), [row("b", 1, 0, second.clone()), row("a", 1, 1, first)]);
    assert_eq!(at("1"), [row("b", 1, 0, second), row("a", 2, 1, third.clone())]);
    assert_eq!(state("ls", data.path(), &["--batch", "1", "--partition", "1"]).ok().json_lines(), at("1")[1..]);
    assert_eq!(at("2"), state("ls", data.path(), &[]).ok().json_lines());
    let got = state("get", data.path(), &["a", "--batch", "1"]).ok().json_lines();
    assert_eq!(got, [row("a", 2, 1, third)]);
    state("get", data.path(), &["a", "--batch", "2"]).fails_with(&["the key a had no state after batch 2"]);
    state("ls", data.path(), &["--batch", "3"]).fails_with(&["there is no batch 3 yet", "0 to 2 can be read"]);
}

#[test]
fn changes_come_by_batch_and_partition_with_sparks_columns() {
    let data = three_batches();
    let all = state("changes", data.path(), &["--from", "0"]).ok().json_lines();
    let brief = |line: &Value| {
        let column = |name: &str| line[name].to_string().replace('"', "");
        ["batch_id", "partition_id", "change_type", "key", "value"].map(column).join(" ")
    };
    let expected = [
        "0 0 update b {count:1}",
        "0 1 update a {count:1}",
        "1 1 update a {count:2}",
        "2 0 delete b null",
        "2 1 update stateless null",
        "2 1 delete a null",
    ];
    assert_eq!(all.iter().map(brief).collect::<Vec<_>>(), expected);
    let columns: Vec<&String> = all[0].as_object().expect("a line is an object").keys().collect();
    assert_eq!(columns, ["batch_id", "change_type", "key", "value", "partition_id", "schema", "timeout"]);
    assert_eq!(state("changes", data.path(), &["--from", "1", "--to", "1"]).ok().json_lines(), all[2..3]);
    state("changes", data.path(), &["--from", "3"]).fails_with(&["there is no batch 3 yet", "0 to 2 can be read"]);
    state("changes", data.path(), &["--from", "0", "--to", "7"]).fails_with(&["there is no batch 7 yet"]);
    state("changes", data.path(), &["--from", "2", "--to", "1"]).fails_with(&["no batches from 2 to 1"]);
}

/// Spark's own test of its metadata reader: two batches in five partitions.
#[test]
fn metadata_says_what_can_be_read_and_what_the_rule_is() {
    let mut trial = Setup { partitions: 5, ..Setup::guest("either-timeout") }.open();
    trial.run(&[event("a", 1_000)]);
    trial.run(&[event("a", 2_000)]);
    let description = trial.component.description().clone();
    let data = trial.close();
    let lines = state("metadata", data.path(), &[]).ok().json_lines();
    let expected = json!({
        "operatorId": 0,
        "operatorName": "flatMapGroupsWithState",
        "stateStoreName": "default",
        "numPartitions": 5,
        "minBatchId": 0,
        "maxBatchId": 1,
        "operatorProperties": {
            "rule": description.name,
            "version": description.version,
            "timeout": "either",
            "outputMode": "update",
            "stateSchema": 1,
            "readableSchemas": [1],
            "stateFormat": description.state_format,
        },
    });
    assert_eq!(lines, [expected]);
    command::run(["state", "metadata", "nowhere"]).fails_with(&["nowhere is not the data folder of a rule"]);
}

/// A partition that a crash left behind the others.
#[test]
fn partitions_at_different_batches_are_read_at_those_that_all_have() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 2_000, 6);
    let stream = Stream { batch_events: 40, ..Stream::of_example("running-count", work.path(), "small") };
    stream.run_into(Fault::BeforeDelivery(3));
    let earlier = stream.committed()[1].expect("it has committed").0;
    let seen = state("ls", &stream.data, &[]).ok().json_lines();
    stream.save(&work.path().join("earlier"));
    stream.run_into(Fault::BeforeDelivery(20));
    folder::restore_partition(&work.path().join("earlier"), &stream.data, 1);

    let metadata = state("metadata", &stream.data, &[]).ok().json_lines().remove(0);
    assert_eq!((&metadata["minBatchId"], &metadata["maxBatchId"]), (&json!(0), &json!(earlier)));
    assert_eq!(state("ls", &stream.data, &[]).ok().json_lines(), seen);
    let beyond = (earlier + 1).to_string();
    let range = format!("batches 0 to {earlier} can be read");
    state("ls", &stream.data, &["--batch", &beyond]).fails_with(&["no batch", &range]);
    state("ls", &stream.data, &["--batch", &beyond, "--partition", "0"]).ok();
}

#[test]
fn a_batch_without_events_leaves_the_state_as_it_was() {
    let mut trial = Setup::guest("event-time-timeout").open();
    trial.run(&[event("a", 1_000)]);
    trial.run(&NOTHING);
    let data = trial.close();
    let at = |batch: &str| state("ls", data.path(), &["--batch", batch]).ok().json_lines();
    assert_eq!(at("1"), at("0"));
    assert!(state("changes", data.path(), &["--from", "1"]).ok().json_lines().is_empty());
}
