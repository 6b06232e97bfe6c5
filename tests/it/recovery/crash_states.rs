//! The states that a crash can leave, made one by one.

use crate::support::host::{Fault, Stream};
use crate::support::{data, folder};
use keyfold::event::BatchId;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Input, and what a run without a crash makes of it.
struct Trial {
    work: TempDir,
    undisturbed: Stream,
}

impl Trial {
    fn new() -> Self {
        let work = tempfile::tempdir().expect("a folder can be made");
        data::card_sessions(&work.path().join("input"), 12_000, 4);
        data::spoil(&work.path().join("input/events-000.jsonl"));
        let undisturbed = stream(work.path(), "undisturbed");
        undisturbed.run_to_the_end();
        Trial { work, undisturbed }
    }

    fn stream(&self, name: &str) -> Stream {
        stream(self.work.path(), name)
    }

    /// Runs to the end and compares everything that a user can see.
    fn finish(&self, stream: &Stream, why: &str) {
        stream.run_to_the_end();
        folder::assert_same_files(&stream.output, &self.undisturbed.output, why);
        assert_eq!(stream.states(), self.undisturbed.states(), "other states, {why}");
        assert_eq!(stream.dead_letters(), self.undisturbed.dead_letters(), "other dead letters, {why}");
    }
}

fn stream(work: &Path, name: &str) -> Stream {
    Stream { event_time: Some("/ts"), ..Stream::of_example("card-sessions", work, name) }
}

#[test]
fn a_sink_that_fails_stops_the_run_and_the_next_one_delivers_the_same_bytes_once() {
    let trial = Trial::new();
    for fault in [0, 5, 11].into_iter().flat_map(|batch| [Fault::BeforeDelivery(batch), Fault::AfterDelivery(batch)]) {
        let stream = trial.stream(&format!("{fault:?}"));
        stream.run_into(fault);
        trial.finish(&stream, &format!("after {fault:?}"));
    }
}

#[test]
fn a_sink_that_fails_at_every_batch_ends_with_the_same_bytes() {
    let trial = Trial::new();
    let stream = trial.stream("failing");
    for batch in 0..12 {
        stream.run_into(Fault::BeforeDelivery(batch));
        stream.run_into(Fault::AfterDelivery(batch));
    }
    trial.finish(&stream, "after 24 faults");
}

#[test]
fn batches_that_were_planned_and_not_committed_are_run_again() {
    let trial = Trial::new();
    let (stream, older) = (trial.stream("planned"), trial.work.path().join("older"));
    stream.run_into(Fault::BeforeDelivery(2));
    stream.save(&older);
    stream.run_into(Fault::BeforeDelivery(5));
    for partition in 0..stream.partitions {
        folder::restore_partition(&older, &stream.data, partition);
    }
    trial.finish(&stream, "with three planned batches that no partition committed");
}

#[test]
fn partitions_at_different_batches_end_at_the_same_one() {
    let trial = Trial::new();
    for partition in 0..trial.undisturbed.partitions {
        let stream = trial.stream(&format!("behind-{partition}"));
        let older = trial.work.path().join(format!("older-{partition}"));
        stream.run_into(Fault::AfterDelivery(2));
        stream.save(&older);
        stream.run_into(Fault::BeforeDelivery(5));
        folder::restore_partition(&older, &stream.data, partition);
        let committed = stream.committed();
        assert_ne!(committed[partition as usize], committed[(partition as usize + 1) % committed.len()]);
        trial.finish(&stream, &format!("with partition {partition} behind the others"));
    }
}

/// While several batches are run again, the commit of one forgets the outputs of the one before. If that is not yet known
/// to be delivered, a second crash leaves a batch of which some partitions have the outputs and some do not.
#[test]
fn a_crash_while_a_crash_is_recovered_from_delivers_no_batch_in_part() {
    let trial = Trial::new();
    let stream = trial.stream("twice");
    let [at_3, at_4] = ["at-3", "at-4"].map(|name| trial.work.path().join(name));
    stream.run_into(Fault::BeforeDelivery(2));
    stream.save(&at_3);
    stream.run_into(Fault::BeforeDelivery(4));
    for partition in 0..stream.partitions {
        folder::restore_partition(&at_3, &stream.data, partition);
    }
    assert_eq!(stream.committed(), [Some(BatchId(3)); 3], "4 and 5 are planned and not committed");
    stream.run_into(Fault::BeforeDelivery(4));
    stream.save(&at_4);
    stream.run_into(Fault::BeforeDelivery(5));
    folder::restore_partition(&at_4, &stream.data, 1);
    assert_eq!(stream.committed(), [Some(BatchId(5)), Some(BatchId(4)), Some(BatchId(5))]);
    trial.finish(&stream, "after a crash while batch 5 was run again");
}

#[test]
fn a_changed_output_file_is_reported_and_nothing_is_overwritten() {
    let trial = Trial::new();
    let stream = trial.stream("changed");
    stream.run_into(Fault::AfterDelivery(3));
    let file = stream.output.join("batch-0000000003.jsonl");
    fs::write(&file, "{\"somebody\":\"else\"}\n").expect("it can be written");
    let error = format!("{:#}", stream.run(Fault::None).expect_err("the file is not the host's"));
    for part in ["batch-0000000003.jsonl", "holds something else", "--output"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "{\"somebody\":\"else\"}\n");
}
