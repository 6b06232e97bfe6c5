//! The same in S3: SeaweedFS, which the tests start.

use super::trial::{
    Trial, a_partition_ends_before_a_missing_delta, an_older_snapshot_is_used, any_batch_is_restored, flip,
};
use crate::support::command;
use crate::support::host::Stream;
use crate::support::seaweedfs::server;
use keyfold::checkpoint::Object;
use keyfold::event::{BatchId, PartitionId};

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
