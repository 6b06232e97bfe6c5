//! A data folder that is restored from a checkpoint in a folder.

use super::trial::{
    Trial, a_partition_ends_before_a_missing_delta, an_older_snapshot_is_used, any_batch_is_restored, at,
};
use crate::support::checkpoint::{self, Contents};
use crate::support::host::Stream;
use crate::support::place::Place;
use keyfold::checkpoint::restore::Options;
use keyfold::checkpoint::{CheckpointStore, Object};
use keyfold::event::BatchId;
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_folder_restored_at_any_batch_has_its_state_and_goes_on_as_if_nothing_had_happened() {
    let trial = Trial::new();
    any_batch_is_restored(&trial, &trial.local("checkpoint"), "any");
}

#[test]
fn a_damaged_snapshot_is_named_and_an_older_one_is_used() {
    let trial = Trial::new();
    an_older_snapshot_is_used(&trial, &trial.local("checkpoint"), "older");
}

#[test]
fn a_missing_delta_ends_its_partition_early_and_the_next_run_gives_it_the_rest() {
    let trial = Trial::new();
    a_partition_ends_before_a_missing_delta(&trial, &trial.local("checkpoint"), "missing");
}

#[test]
fn plans_and_commits_that_were_deleted_before_the_oldest_snapshot_are_not_needed() {
    let trial = Trial::new();
    let store = trial.local("checkpoint");
    let newest = trial.write(&store);
    for batch in (0..=3).map(BatchId) {
        store.delete(&[Object::Commit(batch), Object::Offsets(batch)]).expect("they are there");
    }
    let (stream, restored) = trial.restore(&store, "retained", Options::default()).expect("the rest is whole");
    assert_eq!(restored.faults, []);
    trial.assert_restored(&stream, newest);
    trial.goes_on(&stream, restored.delivered, "without the first plans");
    // Without how far files were read, the next run would read them from the start.
    for batch in [3, 7].map(BatchId) {
        store.delete(&[Object::Positions(batch)]).expect("they are there");
    }
    let error = trial.restore(&store, "positions", Options::default()).expect_err("nobody can tell");
    assert!(format!("{error:#}").contains("how far"), "{error:#}");
}

#[test]
fn a_fork_is_a_history_of_its_own_that_ends_with_the_same_states() {
    let trial = Trial::new();
    let store = trial.local("checkpoint");
    trial.write(&store);
    let options = Options { fork: true, ..at(BatchId(5)) };
    let (stream, restored) = trial.restore(&store, "fork", options).expect("it is whole");
    assert_eq!((restored.batch, restored.delivered), (Some(BatchId(5)), Some(BatchId(5))));
    assert_eq!((restored.to_run_again, restored.plans_left_out.as_slice()), (None, [].as_slice()));
    assert_ne!(restored.id, "test", "the id is that of the folder that was forked");
    trial.assert_restored(&stream, BatchId(5));
    trial.goes_on(&stream, restored.delivered, "forked at batch 5");
}

#[test]
fn what_cannot_be_restored_is_refused_and_leaves_nothing() {
    let trial = Trial::new();
    let store = trial.local("checkpoint");
    let newest = trial.write(&store);
    let beyond = trial.restore(&store, "beyond", at(BatchId(newest.0 + 1))).expect_err("it is not committed");
    assert!(format!("{beyond:#}").contains(&format!("the newest is {newest}")), "{beyond:#}");
    let nothing = trial.restore(&trial.local("empty"), "nothing", Options::default()).expect_err("there is nothing");
    assert!(format!("{nothing:#}").contains("there is no checkpoint at"), "{nothing:#}");
    let folder = trial.work.path().join("full-data");
    fs::create_dir(&folder).expect("it is new");
    fs::write(folder.join("file"), "").expect("it is ours");
    let full = trial.restore(&store, "full", Options::default()).expect_err("there is a file");
    assert!(format!("{full:#}").contains("is not empty"), "{full:#}");
    for name in ["beyond-data", "nothing-data", ".beyond-data.unfinished", ".nothing-data.unfinished"] {
        assert!(!trial.work.path().join(name).exists(), "{name} is left");
    }
}

/// The stream of a place that a test runs the binary in.
fn stream(place: &Place, partitions: u32) -> Stream {
    let work = place.path("");
    Stream {
        data: place.path("data"),
        output: place.path("output"),
        partitions,
        ..Stream::of_example("running-count", &work, "")
    }
}

fn open(place: &Place) -> CheckpointStore {
    CheckpointStore::open(&place.path("checkpoint").display().to_string()).expect("the folder is ours")
}

#[test]
fn imported_states_that_wait_for_a_batch_are_restored_with_it() {
    let place = Place::counting("key = '/user_id'\npartitions = 2\nbatch-events = 2\n");
    place.write("input/1.jsonl", "{\"user_id\":\"ada\"}\n{\"user_id\":\"new\"}\n");
    place.write(
        "states.jsonl",
        "{\"key\":\"ada\",\"value\":10}\n{\"key\":\"only\",\"value\":20}\n{\"key\":\"x\",\"value\":5}\n",
    );
    let run = ["--input", "input", "--initial-state", "states.jsonl"];
    place.run(&run);
    let (rows, outputs) = (place.rows(), place.outputs());
    // Only the first of three batches is committed. The second one reads the last of the states.
    let store = open(&place);
    let contents = Contents { snapshots: Vec::new(), uncommitted: 2, undelivered: 1 };
    checkpoint::write(&stream(&place, 2), &store, &contents);
    for folder in ["data", "output"] {
        fs::remove_dir_all(place.path(folder)).expect("it is there");
    }
    place.finish(&["restore", "checkpoint", "--data", "data"]).ok();
    place.run(&run);
    assert_eq!((place.rows(), place.outputs()), (rows, outputs));
}

#[test]
fn planned_batches_that_read_standard_input_are_left_out_and_its_new_input_is_read_from_the_start() {
    let place = Place::counting("key = '/user_id'\npartitions = 2\nbatch-events = 2\n");
    place.write("lines.jsonl", "{\"user_id\":\"a\"}\n{\"user_id\":\"b\"}\n{\"user_id\":\"c\"}\n{\"user_id\":\"d\"}\n");
    let run = |lines: &str| {
        let mut call = place.keyfold(&["run", ".", "--quiet", "--data", "data", "--output", "output", "--input", "-"]);
        call.stdin(fs::File::open(place.path(lines)).expect("it is there"));
        crate::support::command::finish(&mut call).ok();
    };
    run("lines.jsonl");
    let contents = Contents { snapshots: Vec::new(), uncommitted: 1, undelivered: 0 };
    checkpoint::write(&stream(&place, 2), &open(&place), &contents);
    fs::remove_dir_all(place.path("data")).expect("it is there");
    let restored = place.finish(&["restore", "checkpoint", "--data", "data"]).ok();
    assert!(restored.stderr.contains("left out"), "{}", restored.stderr);
    let counts = |rows: Vec<Value>| -> Vec<Value> {
        let mut counts: Vec<Value> = rows.iter().map(|row| json!([row["key"], row["value"]])).collect();
        counts.sort_by_key(Value::to_string);
        counts
    };
    assert_eq!(counts(place.rows()), [json!(["a", 1]), json!(["b", 1])]);
    fs::remove_dir_all(place.path("output")).expect("it is there");
    place.write("more.jsonl", "{\"user_id\":\"a\"}\n{\"user_id\":\"e\"}\n");
    run("more.jsonl");
    assert_eq!(counts(place.rows()), [json!(["a", 2]), json!(["b", 1]), json!(["e", 1])]);
}
