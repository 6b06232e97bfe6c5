//! Every object of a checkpoint, damaged: somebody notices, and nothing wrong is restored.

use super::trial::{Trial, flip};
use keyfold::checkpoint::listing::Listing;
use keyfold::checkpoint::restore::Options;
use keyfold::checkpoint::verify::verify;
use keyfold::checkpoint::{CheckpointStore, Object};
use keyfold::clock::Clock;
use keyfold::event::BatchId;

/// Every so many restored folders go on to the end of the input: that takes the longest.
const GOES_ON: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Flip,
    Cut,
    Delete,
}

impl Damage {
    fn inflict(self, store: &CheckpointStore, object: &Object) {
        match self {
            Damage::Flip => flip(store, object),
            Damage::Cut => super::trial::change(store, object, |bytes| bytes.truncate(bytes.len() / 2)),
            Damage::Delete => store.delete(std::slice::from_ref(object)).expect("it is there"),
        }
    }

    /// Whether nothing that is left says that the object was there: the ends of a history may be younger or older.
    fn is_unseen(self, object: &Object, newest: BatchId) -> bool {
        let is_end = |batch: BatchId| batch.0 == 0 || batch >= newest;
        match object {
            _ if self != Damage::Delete => false,
            Object::Snapshot(..) | Object::Positions(_) => true,
            Object::Commit(batch) => is_end(*batch),
            Object::Offsets(batch) => batch.0 > newest.0 + 1,
            _ => false,
        }
    }
}

fn objects(store: &CheckpointStore) -> Vec<Object> {
    Listing::read(store).expect("it can be listed").objects().map(|(object, _)| object).collect()
}

/// What `verify` says of a checkpoint; the names of the objects that it finds wrong.
fn found_by_verify(trial: &Trial, store: &CheckpointStore) -> Vec<String> {
    let scratch = tempfile::tempdir_in(trial.work.path()).expect("a folder can be made");
    match verify(store, scratch.path(), &Clock::System, &mut ()) {
        Ok(found) => found.faults.into_iter().map(|fault| fault.object).collect(),
        Err(error) => vec![format!("{error:#}")],
    }
}

/// Damages every object in turn. Each is found, and what is restored is right.
fn every_object(damage: Damage) {
    let trial = Trial::new();
    let store = trial.local("checkpoint");
    let newest = trial.write(&store);
    assert_eq!(found_by_verify(&trial, &store), [] as [&str; 0]);
    for (number, object) in objects(&store).into_iter().enumerate() {
        let bytes = store.read(&object).expect("it can be read").expect("it is listed");
        damage.inflict(&store, &object);
        let why = format!("{damage:?} of {}", object.name());

        let found = found_by_verify(&trial, &store);
        let is_named = found.iter().any(|found| found.contains(&object.name()));
        assert!(is_named || damage.is_unseen(&object, newest), "{why}: {found:?}");

        match trial.restore(&store, &format!("restored-{number}"), Options::default()) {
            Ok((stream, restored)) if number % GOES_ON == 0 => trial.goes_on(&stream, restored.delivered, &why),
            Ok((stream, restored)) if restored.partitions.iter().all(|done| done.batch == Some(newest)) => {
                trial.assert_restored(&stream, newest);
            }
            Ok((_, restored)) => assert!(
                restored.faults.iter().any(|fault| fault.object == object.name()) || damage == Damage::Delete,
                "{why}: {restored:?}"
            ),
            Err(error) => {
                let text = format!("{error:#}");
                assert!(matches!(object, Object::Metadata | Object::Offsets(_)), "{why}: {text}");
                assert!(text.contains(&object.name()), "{why}: {text}");
            }
        }
        store.overwrite(&object, bytes).expect("it can be written");
    }
}

#[test]
fn a_bit_that_flips_in_any_object_is_found_and_nothing_wrong_is_restored() {
    every_object(Damage::Flip);
}

#[test]
fn any_object_that_is_cut_is_found_and_nothing_wrong_is_restored() {
    every_object(Damage::Cut);
}

#[test]
fn an_object_that_is_missing_is_found_and_nothing_wrong_is_restored() {
    every_object(Damage::Delete);
}
