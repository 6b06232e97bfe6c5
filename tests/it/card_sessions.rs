//! Card sessions through the real binary: exactly the rows of the reference, however the run is set up.

use crate::support::card_sessions::{assert_same_rows, expected_rows, rows};
use crate::support::{command, data, folder};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const EVENTS: u64 = 60_000;

/// One run over the input: where it wrote.
struct Run {
    data: PathBuf,
    output: PathBuf,
}

fn run(work: &Path, name: &str, settings: &[&str]) -> Run {
    let paths = Run { data: work.join(format!("{name}-data")), output: work.join(format!("{name}-output")) };
    let mut call = command::keyfold(["run", "--quiet", "--input"]);
    call.arg(work.join("input")).arg("--data").arg(&paths.data).arg("--output").arg(&paths.output).args(settings);
    call.arg(command::example("card-sessions"));
    command::finish(&mut call).ok();
    paths
}

/// Runs with the same cut into batches and partitions, on one thread and on two.
fn check(partitions: &str, batch_events: &str) {
    let work = tempfile::tempdir().expect("a folder can be made");
    let texts = data::card_sessions(&work.path().join("input"), EVENTS, 7);
    let expected = expected_rows(texts.iter().map(String::as_str));
    let settings = ["--partitions", partitions, "--batch-events", batch_events, "--threads"];
    let runs = [("one", "1"), ("two", "2")]
        .map(|(name, threads)| run(work.path(), name, &[&settings[..], &[threads]].concat()));
    for Run { data, output } in &runs {
        let lines = folder::lines(output);
        assert_same_rows(&rows(lines.iter().map(String::as_str)), &expected);
        assert_only_the_last_key_has_state(data);
    }
    folder::assert_same_files(&runs[1].output, &runs[0].output, "with the same settings on two threads");
}

/// The generator's last event closes all sessions but its own.
fn assert_only_the_last_key_has_state(data: &Path) {
    let states = command::finish(command::keyfold(["state", "ls"]).arg(data)).ok().json_lines();
    let keys: Vec<&Value> = states.iter().map(|state| &state["key"]).collect();
    assert_eq!(keys, ["zzz-end"]);
}

#[test]
fn one_partition_and_small_batches_give_the_rows_of_the_reference() {
    check("1", "1000");
}

#[test]
fn one_partition_and_one_batch_give_the_rows_of_the_reference() {
    check("1", "100000");
}

#[test]
fn two_partitions_and_small_batches_give_the_rows_of_the_reference() {
    check("2", "1000");
}

#[test]
fn two_partitions_and_one_batch_give_the_rows_of_the_reference() {
    check("2", "100000");
}

#[test]
fn eight_partitions_and_small_batches_give_the_rows_of_the_reference() {
    check("8", "1000");
}

#[test]
fn eight_partitions_and_one_batch_give_the_rows_of_the_reference() {
    check("8", "100000");
}

#[test]
fn the_same_command_in_fresh_folders_writes_the_same_bytes() {
    let work: TempDir = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), EVENTS / 4, 8);
    let settings = ["--batch-events", "700"];
    let (first, second) = (run(work.path(), "first", &settings), run(work.path(), "second", &settings));
    folder::assert_same_files(&second.output, &first.output, "in a second run");
}
