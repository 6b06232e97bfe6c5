//! Progress: every field of Spark's that has a meaning here, with what it counts, and the records that are kept.

use crate::support::command::{self, Finished};
use crate::support::data;
use crate::support::host::{Fault, Stream};
use crate::support::process::{Process, wait_until};
use crate::support::rules::{Setup, event};
use keyfold::event::Millis;
use keyfold::state::PlanLog;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

/// The day that the payments of these tests begin: 2026-01-05T08:00:00Z.
const START_MS: i64 = 1_767_600_000_000;

/// Payments, each of a user and of so many seconds after the start, added to the input.
fn pay(work: &Path, payments: &[(&str, i64)]) {
    let path = work.join("input.jsonl");
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the folder can be written");
    for (user, seconds) in payments {
        let payment = json!({ "user_id": user, "ts": START_MS + seconds * 1000, "amount_minor": 100 });
        writeln!(file, "{payment}").expect("the disk has room");
    }
}

/// Runs the card sessions over the input, three payments to a batch.
fn run(work: &Path) -> Finished {
    let rule = command::example("card-sessions");
    let args = ["--input", "input.jsonl", "--data", "state", "--output", "out", "--batch-events", "3", "--json"];
    command::finish(command::keyfold(["run"]).arg(rule).args(args).current_dir(work)).ok()
}

fn progress(work: &Path, args: &[&str]) -> Finished {
    command::finish(command::keyfold(["progress", "state"]).args(args).current_dir(work)).ok()
}

/// Two sessions that begin, two more an hour later, and at last a late payment while the first two end.
fn three_batches(work: &Path) {
    pay(work, &[("a", 0), ("a", 10), ("b", 20)]);
    pay(work, &[("c", 3600), ("d", 3600), ("c", 3600)]);
    pay(work, &[("a", 5), ("c", 3600), ("c", 3600)]);
}

fn names(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap_or_else(|| panic!("{value} is no object")).keys().map(String::as_str).collect()
}

#[test]
fn the_fields_have_the_names_of_spark() {
    let work = tempfile::tempdir().expect("a folder can be made");
    three_batches(work.path());
    let records = run(work.path()).json_lines();
    let spark: [(&str, &[&str]); 6] = [
        (
            "",
            &[
                "id",
                "runId",
                "name",
                "timestamp",
                "batchId",
                "batchDuration",
                "numInputRows",
                "processedRowsPerSecond",
                "durationMs",
                "eventTime",
                "stateOperators",
                "sources",
                "sink",
            ],
        ),
        ("/durationMs", &["latestOffset", "getBatch", "walCommit", "addBatch", "triggerExecution"]),
        ("/eventTime", &["avg", "max", "min", "watermark"]),
        (
            "/stateOperators/0",
            &[
                "operatorName",
                "numRowsTotal",
                "numRowsUpdated",
                "allUpdatesTimeMs",
                "numRowsRemoved",
                "allRemovalsTimeMs",
                "commitTimeMs",
                "memoryUsedBytes",
                "numRowsDroppedByWatermark",
                "numShufflePartitions",
                "numStateStoreInstances",
                "customMetrics",
            ],
        ),
        (
            "/sources/0",
            &[
                "name",
                "description",
                "startOffset",
                "endOffset",
                "latestOffset",
                "numInputRows",
                "processedRowsPerSecond",
                "metrics",
            ],
        ),
        ("/sink", &["description", "numOutputRows", "metrics"]),
    ];
    for (pointer, expected) in spark {
        let mut found = names(records[2].pointer(pointer).expect("the record has it"));
        // Left out when two batches are triggered in the same millisecond.
        found.remove("inputRowsPerSecond");
        assert_eq!(found, expected.iter().copied().collect(), "at {pointer:?}");
    }
    for record in &records {
        let ms = |name: &str| record["durationMs"][name].as_u64().expect("every step was measured");
        let steps: u64 = ["latestOffset", "getBatch", "walCommit", "addBatch"].map(ms).iter().sum();
        assert!(steps <= ms("triggerExecution"), "the steps are longer than the whole: {}", record["durationMs"]);
        assert_eq!(record["batchDuration"], record["durationMs"]["triggerExecution"]);
    }
}

#[test]
fn rows_are_counted_as_total_updated_removed_and_dropped() {
    let work = tempfile::tempdir().expect("a folder can be made");
    three_batches(work.path());
    let records = run(work.path()).json_lines();
    let counts = |record: &Value| {
        let operator = &record["stateOperators"][0];
        ["numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark"]
            .map(|name| operator[name].as_u64().expect("it is counted"))
    };
    let counted: Vec<_> = records.iter().map(counts).collect();
    assert_eq!(counted, [[2, 2, 0, 0], [4, 2, 0, 0], [2, 1, 2, 1]]);
    let outputs: Vec<_> = records.iter().map(|record| record["sink"]["numOutputRows"].as_u64()).collect();
    assert_eq!(outputs, [Some(0), Some(0), Some(2)]);
    let input = fs::read_to_string(work.path().join("input.jsonl")).expect("it was just written");
    let source = &records[2]["sources"][0];
    assert_eq!(
        source["startOffset"],
        json!({ "input.jsonl": input.lines().take(6).map(|line| line.len() + 1).sum::<usize>() })
    );
    assert_eq!(source["endOffset"], json!({ "input.jsonl": input.len() }));
    assert_eq!(source["metrics"]["bytesTotal"], input.len().to_string());
}

#[test]
fn event_times_are_those_of_the_batch_and_the_watermark_is_the_one_that_it_used() {
    let work = tempfile::tempdir().expect("a folder can be made");
    three_batches(work.path());
    let records = run(work.path()).json_lines();
    let day = |time: &str| format!("2026-01-05T{time}Z");
    let times = |[min, avg, max]: [&str; 3], watermark: String| json!({ "avg": day(avg), "max": day(max), "min": day(min), "watermark": watermark });
    let expected = [
        times(["08:00:00.000", "08:00:10.000", "08:00:20.000"], "1970-01-01T00:00:00.000Z".to_owned()),
        times(["09:00:00.000", "09:00:00.000", "09:00:00.000"], day("08:00:10.000")),
        // The late event is one of the batch's.
        times(["08:00:05.000", "08:40:01.666", "09:00:00.000"], day("08:59:50.000")),
    ];
    let found: Vec<_> = records.iter().map(|record| record["eventTime"].clone()).collect();
    assert_eq!(found, expected);
}

#[test]
fn rates_count_from_the_trigger_before_and_a_batch_without_events_has_no_times() {
    let mut trial = Setup::guest("event-time-timeout").open();
    trial.clock.advance_to(Millis(1000));
    let first = trial.run(&[event("a", 1000)]).record;
    assert_eq!((first.input_rows_per_second, first.sources[0].input_rows_per_second), (None, None));
    trial.clock.advance_to(Millis(3000));
    let second = trial.run(&[event("a", 2000), event("b", 2000), event("c", 2000)]).record;
    assert_eq!((second.input_rows_per_second, second.sources[0].input_rows_per_second), (Some(1.5), Some(1.5)));
    assert_eq!(second.timestamp, "1970-01-01T00:00:03.000Z");
    let none: [&str; 0] = [];
    let third = trial.run(&none).record;
    assert_eq!(third.input_rows_per_second, None, "no time has passed on this clock");
    assert_eq!(serde_json::to_value(third.event_time).unwrap(), json!({ "watermark": "1970-01-01T00:00:02.000Z" }));
    assert!(third.sources[0].start_offset.is_empty() && third.sources[0].end_offset.is_empty());
}

#[test]
fn records_outlive_the_run_and_a_new_one_has_a_new_id() {
    let work = tempfile::tempdir().expect("a folder can be made");
    three_batches(work.path());
    let first = run(work.path());
    assert_eq!(progress(work.path(), &["--json"]).stdout, first.stdout, "what was reported is what is kept");
    pay(work.path(), &[("e", 3700)]);
    let second = run(work.path());
    assert_eq!(progress(work.path(), &["--json"]).stdout, first.stdout.clone() + &second.stdout);
    assert_eq!(progress(work.path(), &["--json", "--limit", "1"]).stdout, second.stdout);
    let (first, second) = (&first.json_lines()[2], &second.json_lines()[0]);
    assert_eq!(first["id"], second["id"]);
    assert_ne!(first["runId"], second["runId"]);
}

#[test]
fn the_table_says_what_the_records_say() {
    let work = tempfile::tempdir().expect("a folder can be made");
    three_batches(work.path());
    let records = run(work.path()).json_lines();
    let table = progress(work.path(), &[]).stdout;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let heads = "batch time rows outputs keys updated removed dropped watermark ms rows/s";
    assert_eq!(rows[0], heads.split(' ').collect::<Vec<_>>());
    assert_eq!(rows.len(), 1 + records.len());
    for (row, record) in rows[1..].iter().zip(&records) {
        let operator = &record["stateOperators"][0];
        let values = [
            &record["batchId"],
            &record["timestamp"],
            &record["numInputRows"],
            &record["sink"]["numOutputRows"],
            &operator["numRowsTotal"],
            &operator["numRowsUpdated"],
            &operator["numRowsRemoved"],
            &operator["numRowsDroppedByWatermark"],
            &record["eventTime"]["watermark"],
            &record["batchDuration"],
            &record["processedRowsPerSecond"],
        ];
        let texts = values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        assert_eq!(*row, texts);
    }
    let widths: BTreeSet<usize> = table.lines().map(str::len).collect();
    assert_eq!(widths.len(), 1, "the columns stand below each other:\n{table}");
    assert_eq!(progress(work.path(), &["--limit", "2"]).stdout.lines().nth(1), table.lines().nth(2));
}

#[test]
fn a_hundred_records_are_kept_and_a_crash_leaves_no_gap_in_them() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 2_100, 1);
    let mut stream = Stream::of_example("running-count", work.path(), "kept");
    (stream.partitions, stream.batch_events) = (1, 20);
    let kept = || {
        let records =
            PlanLog::recent_progress(&stream.data).expect("the folder can be read").expect("it has a plan log");
        let batch = |record: &String| serde_json::from_str::<Value>(record).unwrap()["batchId"].as_u64().unwrap();
        records.iter().map(batch).collect::<Vec<_>>()
    };
    stream.run_into(Fault::AfterDelivery(50));
    let before = kept();
    assert!(before.len() < 51 && before == (0..before.len() as u64).collect::<Vec<_>>(), "{before:?}");
    stream.run_to_the_end();
    let after = kept();
    let last = *after.last().expect("there are records");
    assert!(last > 100, "only {last} batches");
    assert_eq!(after, (last - 99..=last).collect::<Vec<_>>());
}

#[test]
fn the_progress_of_a_rule_that_waits_for_input_can_be_read() {
    let work = tempfile::tempdir().expect("a folder can be made");
    pay(work.path(), &[("a", 0)]);
    let rule = command::example("running-count");
    let args = ["--input", "input.jsonl", "--data", "state", "--follow", "--quiet"];
    let mut process = Process::start(command::keyfold(["run"]).arg(rule).args(args).current_dir(work.path()));
    let read = |args: &[&str]| command::finish(command::keyfold(args).current_dir(work.path()));
    wait_until("the first batch was reported", || {
        read(&["progress", "state", "--json"]).stdout.lines().count() == 1 || !process.is_running()
    });
    let table = read(&["progress", "state"]).ok().stdout;
    let row: Vec<&str> = table.lines().nth(1).expect("there is a batch").split_whitespace().collect();
    assert_eq!((row[0], row[2], row[8]), ("0", "1", "-"), "an input without event time has no watermark");
    process.terminate().ok();
}

#[test]
fn a_folder_without_a_plan_log_is_refused() {
    let work = tempfile::tempdir().expect("a folder can be made");
    for folder in ["nowhere", "."] {
        let call = command::finish(command::keyfold(["progress", folder]).current_dir(work.path()));
        call.fails_with(&[&format!("{folder} is not the data folder of a rule")]);
    }
}
