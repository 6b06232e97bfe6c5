//! [`Bench`]: a run with a checkpoint beside one that had none and was not disturbed.

use crate::support::faulty_store::{FaultyStore, Weather};
use crate::support::host::Stream;
use crate::support::{data, folder};
use keyfold::checkpoint::layout::Folder;
use keyfold::checkpoint::object::{Commit, of_text};
use keyfold::checkpoint::restore::{Options, restore};
use keyfold::checkpoint::verify::verify;
use keyfold::checkpoint::{CheckpointSettings, CheckpointStore, Object};
use keyfold::clock::Clock;
use keyfold::event::BatchId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Payments, and a run over them that nothing disturbed.
pub struct Bench {
    pub work: TempDir,
    pub undisturbed: Stream,
}

impl Bench {
    /// Some two dozen batches, with dead letters.
    pub fn new() -> Self {
        let work = tempfile::tempdir().expect("a folder can be made");
        data::card_sessions(&work.path().join("input"), 12_000, 4);
        data::spoil(&work.path().join("input/events-000.jsonl"));
        let undisturbed = stream(work.path(), "undisturbed");
        undisturbed.run_to_the_end();
        Bench { work, undisturbed }
    }

    /// A run to folders of this name, with a checkpoint in the folder `checkpoint`.
    pub fn stream(&self, name: &str) -> Stream {
        Stream { checkpoint: Some(CheckpointSettings::new(self.store())), ..stream(self.work.path(), name) }
    }

    /// The same with another checkpoint, in a folder of this name.
    pub fn elsewhere(&self, name: &str) -> (Stream, Arc<CheckpointStore>) {
        let url = self.work.path().join(name).display().to_string();
        let store = Arc::new(CheckpointStore::open(&url).expect("the folder is ours"));
        let checkpoint = Some(CheckpointSettings::new(Arc::clone(&store)));
        (Stream { checkpoint, ..stream(self.work.path(), name) }, store)
    }

    /// The same over a store with weather.
    pub fn in_weather(&self, weather: Weather) -> (Stream, FaultyStore) {
        let faulty = FaultyStore::new(&self.folder(), weather);
        let store = CheckpointStore::new(Arc::new(faulty.clone()), Default::default(), "a faulty store");
        let store = store.expect("a runtime can be made").with_answer_max(Duration::from_millis(300));
        let checkpoint = Some(CheckpointSettings::new(Arc::new(store)));
        (Stream { checkpoint, ..stream(self.work.path(), "weather") }, faulty)
    }

    /// The folder that the checkpoint is in.
    pub fn folder(&self) -> PathBuf {
        self.work.path().join("checkpoint")
    }

    /// The checkpoint.
    pub fn store(&self) -> Arc<CheckpointStore> {
        let url = self.folder().display().to_string();
        Arc::new(CheckpointStore::open(&url).expect("the folder is ours"))
    }

    /// The objects of the checkpoint, by name.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        objects(&self.store())
    }

    /// Outputs, states and dead letters are those of the undisturbed run.
    pub fn assert_same(&self, stream: &Stream, why: &str) {
        folder::assert_same_files(&stream.output, &self.undisturbed.output, why);
        assert_eq!(stream.states(), self.undisturbed.states(), "other states, {why}");
        assert_eq!(stream.dead_letters(), self.undisturbed.dead_letters(), "other dead letters, {why}");
    }

    /// Nothing is wrong with the checkpoint, and what is restored from it is what the run has.
    pub fn assert_restores(&self, stream: &Stream, name: &str) {
        let scratch = tempfile::tempdir().expect("a folder can be made");
        let found = verify(&self.store(), scratch.path(), &Clock::System, &mut ()).expect("it can be read");
        assert!(found.faults.is_empty(), "{:?}", found.faults);
        let restored = Stream { data: self.work.path().join(name), checkpoint: None, ..stream.clone() };
        restore(&self.store(), &restored.data, Options::default(), &mut ()).expect("it is whole");
        assert_eq!(restored.committed(), stream.committed());
        assert_eq!(restored.states(), stream.states());
        assert_eq!(restored.dead_letters(), stream.dead_letters());
    }
}

/// The objects of a checkpoint, by name.
pub fn objects(store: &CheckpointStore) -> BTreeMap<String, Vec<u8>> {
    let listed = store.list(Folder::All).expect("it can be listed").into_iter();
    let read = |object: Object| store.read(&object).expect("it can be read").expect("it was listed").to_vec();
    listed.map(|listed| (listed.object.name(), read(listed.object))).collect()
}

/// The commits of a checkpoint, in order.
pub fn commits(store: &CheckpointStore) -> Vec<(BatchId, Commit)> {
    let listed = store.list(Folder::Commits).expect("it can be listed").into_iter();
    let of = |object: Object| {
        let bytes = store.read(&object).expect("it can be read").expect("it was listed");
        let Object::Commit(batch) = object else { panic!("{object:?} is no commit") };
        (batch, of_text(&object.name(), &bytes).expect("it is whole"))
    };
    listed.map(|listed| of(listed.object)).collect()
}

/// The batches of objects of a folder, in order.
pub fn batches(store: &CheckpointStore, folder: Folder) -> Vec<u64> {
    let listed = store.list(folder).expect("it can be listed").into_iter();
    let number = |object| match object {
        Object::Offsets(batch) | Object::Commit(batch) | Object::Positions(batch) | Object::Snapshot(_, batch) => {
            Some(batch.0)
        }
        _ => None,
    };
    listed.filter_map(|listed| number(listed.object)).collect()
}

fn stream(work: &Path, name: &str) -> Stream {
    Stream { event_time: Some("/ts"), batch_events: 500, ..Stream::of_example("card-sessions", work, name) }
}
