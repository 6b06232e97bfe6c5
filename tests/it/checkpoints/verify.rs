//! `keyfold verify` and `keyfold checkpoint ls`, as a user calls them.

use super::trial::{Trial, flip};
use crate::support::command;
use keyfold::checkpoint::Object;
use keyfold::event::{BatchId, PartitionId};

#[test]
fn a_whole_checkpoint_is_said_to_be_whole_and_a_damaged_one_fails_with_the_names() {
    let trial = Trial::new();
    let store = trial.local("checkpoint");
    let newest = trial.write(&store);
    let url = trial.work.path().join("checkpoint").display().to_string();
    let whole = command::run(["verify", &url]).ok();
    assert!(whole.stderr.contains("whole: stream") && whole.stderr.contains(&format!("batch {newest}")), "{whole:?}");
    let json = &command::run(["verify", &url, "--json"]).ok().json_lines()[0];
    assert_eq!((json["batch"].as_u64(), json["faults"].as_array().map(Vec::len)), (Some(newest.0), Some(0)));
    assert!(json["batchAgeMs"].is_i64() && json["snapshotAgeMs"].is_i64() && json["restored"].is_object(), "{json}");

    let objects = [Object::Delta(PartitionId(0), BatchId(1)), Object::Snapshot(PartitionId(2), BatchId(3))];
    objects.iter().for_each(|object| flip(&store, object));
    store.delete(&[Object::Commit(BatchId(5))]).expect("it is there");
    let failed = command::run(["verify", &url, "--json"]).with_code(1);
    let json = &failed.json_lines()[0];
    let named: Vec<&str> =
        json["faults"].as_array().expect("it is a list").iter().filter_map(|fault| fault["object"].as_str()).collect();
    assert_eq!(named, ["commits/5", "state/0/0/1.delta", "state/0/2/3.snapshot"]);
    command::run(["verify", &url]).fails_with(&[
        "commits/5: it is missing",
        "state/0/2/3.snapshot",
        "3 things are wrong",
    ]);
    command::run(["verify", &trial.work.path().join("nothing").display().to_string()])
        .fails_with(&["there is no checkpoint"]);
    assert!(!trial.work.path().join("nothing").exists(), "looking for a checkpoint made a folder");
}

#[test]
fn a_checkpoint_is_listed_with_its_batches_sizes_and_epochs() {
    let trial = Trial::new();
    let newest = trial.write(&trial.local("checkpoint"));
    let url = trial.work.path().join("checkpoint").display().to_string();
    let json = &command::run(["checkpoint", "ls", &url, "--json"]).ok().json_lines()[0];
    assert_eq!(json["rule"], "stream");
    assert_eq!(json["committed"], serde_json::json!([0, newest.0]));
    assert_eq!(json["planned"], serde_json::json!([0, newest.0 + 2]));
    assert_eq!((json["lagBatches"].as_u64(), json["delivered"].as_u64()), (Some(2), Some(newest.0 - 2)));
    assert_eq!(json["epochs"][0]["epoch"], 1);
    let partitions = json["partitions"].as_array().expect("it is a list");
    let keys: u64 = partitions.iter().filter_map(|partition| partition["keys"].as_u64()).sum();
    assert!(keys > 0 && partitions.len() == 3, "{json}");
    for partition in partitions {
        let batches: Vec<_> =
            partition["snapshots"].as_array().expect("it is a list").iter().map(|one| &one["batch"]).collect();
        assert_eq!(batches, [3, 7]);
    }
    let text = command::run(["checkpoint", "ls", &url]).ok().stdout;
    for part in ["stream", "2 not committed", &format!("commits: 0 to {newest}"), "epoch 1"] {
        assert!(text.contains(part), "the text lacks '{part}':\n{text}");
    }
}
