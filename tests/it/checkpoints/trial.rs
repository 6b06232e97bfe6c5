//! [`Trial`]: a run that was not disturbed, its checkpoint, and folders that are restored from it and go on.

use crate::support::checkpoint::{self, Contents, rows_at};
use crate::support::host::Stream;
use crate::support::{data, folder};
use anyhow::Result;
use keyfold::checkpoint::restore::{Options, Restored, restore};
use keyfold::checkpoint::{CheckpointStore, Object};
use keyfold::event::{BatchId, PartitionId};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Snapshots of all partitions.
pub const SNAPSHOTS: [u64; 2] = [3, 7];

/// A run that was not disturbed.
pub struct Trial {
    pub work: TempDir,
    pub undisturbed: Stream,
}

impl Trial {
    /// Runs over payments of which some cannot be handled, in a dozen batches.
    pub fn new() -> Self {
        let work = tempfile::tempdir().expect("a folder can be made");
        data::card_sessions(&work.path().join("input"), 12_000, 4);
        data::spoil(&work.path().join("input/events-000.jsonl"));
        let undisturbed = stream(work.path(), "undisturbed");
        undisturbed.run_to_the_end();
        Trial { work, undisturbed }
    }

    /// A folder for a checkpoint.
    pub fn local(&self, name: &str) -> CheckpointStore {
        CheckpointStore::open(&self.work.path().join(name).display().to_string()).expect("the folder is ours")
    }

    /// Writes the checkpoint of a run that was killed two batches after the last commit. Returns the newest batch in it.
    pub fn write(&self, store: &CheckpointStore) -> BatchId {
        let contents = Contents { snapshots: SNAPSHOTS.to_vec(), uncommitted: 2, undelivered: 2 };
        BatchId(checkpoint::write(&self.undisturbed, store, &contents))
    }

    /// Restores to a folder of this name.
    pub fn restore(&self, store: &CheckpointStore, name: &str, options: Options) -> Result<(Stream, Restored)> {
        let stream = stream(self.work.path(), name);
        let restored = restore(store, &stream.data, options, &mut ())?;
        Ok((stream, restored))
    }

    /// The rows and dead letters of a restored folder are those that the undisturbed run had after this batch.
    pub fn assert_restored(&self, stream: &Stream, batch: BatchId) {
        for partition in (0..stream.partitions).map(PartitionId) {
            let (found, expected) = (rows_at(stream, partition, batch), rows_at(&self.undisturbed, partition, batch));
            assert!(found == expected, "other rows of partition {partition} after batch {batch}");
        }
        let expected = self.undisturbed.dead_letters().into_iter().filter(|(_, of, _)| *of <= batch);
        assert_eq!(stream.dead_letters(), expected.collect::<Vec<_>>(), "other dead letters after batch {batch}");
    }

    /// Goes on with a restored folder, and ends as the undisturbed run did. What was delivered before is there, and nothing else.
    pub fn goes_on(&self, stream: &Stream, delivered: Option<BatchId>, why: &str) {
        fs::create_dir_all(&stream.output).expect("the folder is ours");
        for (name, bytes) in folder::files(&self.undisturbed.output) {
            let number = name.trim_start_matches("batch-").trim_end_matches(".jsonl");
            let number: u64 = number.parse().expect("files are named after batches");
            if delivered.is_some_and(|delivered| number <= delivered.0) {
                fs::write(stream.output.join(name), bytes).expect("the folder is ours");
            }
        }
        stream.run_to_the_end();
        folder::assert_same_files(&stream.output, &self.undisturbed.output, why);
        assert_eq!(stream.states(), self.undisturbed.states(), "other states, {why}");
        assert_eq!(stream.dead_letters(), self.undisturbed.dead_letters(), "other dead letters, {why}");
    }
}

fn stream(work: &Path, name: &str) -> Stream {
    Stream { event_time: Some("/ts"), ..Stream::of_example("card-sessions", work, name) }
}

/// Options for a batch.
pub fn at(batch: BatchId) -> Options {
    Options { batch: Some(batch), ..Options::default() }
}

/// A restored folder has the state of any batch that is asked for, and goes on from there.
pub fn any_batch_is_restored(trial: &Trial, store: &CheckpointStore, label: &str) {
    let newest = trial.write(store);
    for batch in (0..=newest.0).map(BatchId) {
        let (stream, restored) = trial.restore(store, &format!("{label}-{batch}"), at(batch)).expect("it is whole");
        assert_eq!(restored.faults, []);
        let snapshot = SNAPSHOTS.map(BatchId).into_iter().rfind(|snapshot| *snapshot <= batch);
        for done in &restored.partitions {
            assert_eq!((done.batch, done.snapshot), (Some(batch), snapshot));
        }
        trial.assert_restored(&stream, batch);
        trial.goes_on(&stream, restored.delivered, &format!("restored at batch {batch}"));
    }
    let (stream, restored) = trial.restore(store, label, Options::default()).expect("it is whole");
    assert_eq!(restored.batch, Some(newest));
    assert_eq!(restored.delivered, Some(BatchId(newest.0 - 2)));
    assert_eq!(restored.to_run_again, Some((BatchId(newest.0 + 1), BatchId(newest.0 + 2))));
    assert!(restored.partitions.iter().any(|done| done.undelivered_outputs > 0), "{restored:?}");
    trial.goes_on(&stream, restored.delivered, "restored at the newest batch");
}

/// A damaged snapshot is named, an older one is used, and nothing is lost.
pub fn an_older_snapshot_is_used(trial: &Trial, store: &CheckpointStore, label: &str) {
    let newest = trial.write(store);
    let object = Object::Snapshot(PartitionId(1), BatchId(7));
    flip(store, &object);
    let (stream, restored) = trial.restore(store, label, Options::default()).expect("the older one is whole");
    let snapshots: Vec<_> = restored.partitions.iter().map(|done| done.snapshot).collect();
    assert_eq!(snapshots, [7, 3, 7].map(|batch| Some(BatchId(batch))));
    assert!(restored.partitions.iter().all(|done| done.batch == Some(newest)));
    let [fault] = restored.faults.as_slice() else { panic!("{:?}", restored.faults) };
    assert!(fault.object == object.name() && fault.problem.contains("damaged"), "{fault}");
    trial.assert_restored(&stream, newest);
    trial.goes_on(&stream, restored.delivered, "with a damaged snapshot");
}

/// A delta that is missing in the middle ends one partition early; the run gives it the rest.
pub fn a_partition_ends_before_a_missing_delta(trial: &Trial, store: &CheckpointStore, label: &str) {
    let newest = trial.write(store);
    let object = Object::Delta(PartitionId(2), BatchId(newest.0 - 1));
    store.delete(std::slice::from_ref(&object)).expect("it is there");
    let (stream, restored) = trial.restore(store, label, Options::default()).expect("the rest is whole");
    let batches: Vec<_> = restored.partitions.iter().map(|done| done.batch).collect();
    assert_eq!(batches, [newest.0, newest.0, newest.0 - 2].map(|batch| Some(BatchId(batch))));
    let [fault] = restored.faults.as_slice() else { panic!("{:?}", restored.faults) };
    assert!(fault.object == object.name() && fault.problem.contains("missing"), "{fault}");
    assert_eq!(restored.to_run_again, Some((BatchId(newest.0 - 1), BatchId(newest.0 + 2))));
    trial.goes_on(&stream, restored.delivered, "with a missing delta");
}

/// Changes one bit in the middle of an object.
pub fn flip(store: &CheckpointStore, object: &Object) {
    change(store, object, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
    });
}

/// Puts a changed object in place of one.
pub fn change(store: &CheckpointStore, object: &Object, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = store.read(object).expect("it can be read").expect("it is there").to_vec();
    change(&mut bytes);
    store.overwrite(object, bytes.into()).expect("it can be written");
}
