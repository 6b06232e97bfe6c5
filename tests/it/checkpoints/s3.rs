//! The same in S3: SeaweedFS, which the tests start.

use super::trial::{
    Trial, a_partition_ends_before_a_missing_delta, an_older_snapshot_is_used, any_batch_is_restored, flip,
};
use crate::support::card_sessions::{assert_same_rows, expected_rows, rows};
use crate::support::host::Stream;
use crate::support::process::{Process, wait_until};
use crate::support::seaweedfs::server;
use crate::support::{command, data, folder};
use keyfold::checkpoint::Object;
use keyfold::event::{BatchId, PartitionId};

/// So often the run moves to another folder.
const MOVES: u32 = 3;

#[test]
fn a_folder_restored_from_s3_at_any_batch_goes_on_as_if_nothing_had_happened() {
    let trial = Trial::new();
    any_batch_is_restored(&trial, &server().store("any/batch"), "any");
}

#[test]
fn damage_in_s3_is_named_and_older_objects_are_used() {
    let trial = Trial::new();
    an_older_snapshot_is_used(&trial, &server().store("older"), "older");
    a_partition_ends_before_a_missing_delta(&trial, &server().store("missing"), "missing");
}

#[test]
fn the_commands_find_a_checkpoint_in_s3_by_the_environment() {
    let trial = Trial::new();
    let store = server().store("deep/path");
    let newest = trial.write(&store);
    let call = |args: &[&str]| {
        let mut call = command::keyfold(args);
        let url = server().url("deep/path", &mut call);
        call.arg(url);
        call
    };
    command::finish(&mut call(&["verify"])).ok();
    let listed = &command::finish(&mut call(&["checkpoint", "ls", "--json"])).ok().json_lines()[0];
    assert_eq!(listed["committed"], serde_json::json!([0, newest.0]));
    let stream = Stream {
        data: trial.work.path().join("s3-data"),
        output: trial.work.path().join("s3-output"),
        ..trial.undisturbed.clone()
    };
    let restored = command::finish(call(&["restore", "--json"]).arg("--data").arg(&stream.data)).ok();
    let delivered = restored.json_lines()[0]["delivered"].as_u64().map(BatchId);
    trial.goes_on(&stream, delivered, "restored from S3 by the command");
    flip(&store, &Object::Delta(PartitionId(0), BatchId(2)));
    command::finish(&mut call(&["verify"])).fails_with(&["state/0/0/2.delta"]);
}

#[test]
fn a_run_that_is_killed_again_and_again_moves_to_another_folder_through_s3_each_time() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let work = work.path();
    let texts = data::card_sessions(&work.join("input"), 30_000, 9);
    let run = |number: u32| {
        let mut call =
            command::keyfold(["run", "--quiet", "--batch-events", "500", "--snapshot-batches", "7", "--input"]);
        call.arg(work.join("input")).arg("--data").arg(work.join(format!("data-{number}")));
        // Nothing has left that is not in the checkpoint, so nothing can be done twice in another way.
        call.args(["--release", "after-checkpoint", "--output"]).arg(work.join("output"));
        let url = server().url("moving", &mut call);
        call.args(["--checkpoint", &url]);
        if number > 0 {
            call.arg("--take-over");
        }
        call.arg(command::example("card-sessions"));
        call
    };
    let output = work.join("output");
    for number in 0..MOVES {
        let wanted = folder::visible_files(&output).len() + 10;
        let mut host = Process::start(&mut run(number));
        wait_until("the run wrote more", || folder::visible_files(&output).len() >= wanted || !host.is_running());
        assert!(host.is_running(), "the run ended before it could be killed: {:?}", host.finish());
        host.kill();
        let mut restore = command::keyfold(["restore", "--json"]);
        let url = server().url("moving", &mut restore);
        restore.arg(url).arg("--data").arg(work.join(format!("data-{}", number + 1)));
        let restored = command::finish(&mut restore).ok();
        assert_eq!(restored.json_lines()[0]["faults"], serde_json::json!([]), "{restored:?}");
        // The folder of the machine that is gone is gone, too.
        std::fs::remove_dir_all(work.join(format!("data-{number}"))).expect("it is there");
    }
    command::finish(&mut run(MOVES)).ok();
    // Each new host begins with a batch without events, so the files have other numbers than those of an undisturbed run.
    let expected = expected_rows(texts.iter().map(String::as_str));
    assert_same_rows(&rows(folder::lines(&output).iter().map(String::as_str)), &expected);
    let mut verify = command::keyfold(["verify"]);
    let url = server().url("moving", &mut verify);
    command::finish(verify.arg(url)).ok();
}
