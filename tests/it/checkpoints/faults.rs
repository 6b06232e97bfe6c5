//! A checkpoint in a store that fails: the run goes on, waits when it must, and loses nothing.

use super::bench::{Bench, batches, commits};
use crate::support::faulty_store::Weather;
use crate::support::folder;
use crate::support::host::{Fault, Stream};
use crate::support::process::wait_until;
use keyfold::checkpoint::layout::Folder;
use keyfold::checkpoint::{Object, ReleaseMode};
use keyfold::event::{BatchId, PartitionId};
use std::sync::atomic::{AtomicBool, Ordering};

/// Begins a run in the weather, looks, and lets it end when all is fine again.
fn clears_up(bench: &Bench, weather: Weather, change: impl FnOnce(&mut Stream), look: impl FnOnce(&Stream)) {
    let (mut stream, faulty) = bench.in_weather(Weather::Fine);
    stream.run_into(Fault::AfterDelivery(1));
    change(&mut stream);
    std::thread::scope(|scope| {
        let before = faulty.requests();
        let run = scope.spawn(|| stream.run(Fault::None));
        // It has opened the checkpoint when it writes its first plan.
        wait_until("it is open", || faulty.requests() > before + 12 || run.is_finished());
        faulty.set(weather);
        look(&stream);
        faulty.set(Weather::Fine);
        run.join().expect("it does not panic").unwrap_or_else(|error| panic!("{error:#}"));
    });
    bench.assert_same(&stream, "after the weather has cleared up");
    bench.assert_restores(&stream, "restored");
}

#[test]
fn whatever_the_weather_everything_arrives() {
    for weather in [Weather::Bursts, Weather::LostAnswers, Weather::Slow] {
        let bench = Bench::new();
        let store = bench.store();
        clears_up(
            &bench,
            weather,
            |stream| stream.checkpoint.as_mut().expect("it has one").snapshot_batches = 12,
            |_| wait_until("more is shipped", || batches(&store, Folder::Commits).len() >= 12),
        );
    }
}

#[test]
fn a_store_that_is_down_or_silent_holds_the_source_back() {
    for weather in [Weather::Down, Weather::Silent] {
        let bench = Bench::new();
        let store = bench.store();
        clears_up(
            &bench,
            weather,
            |stream| stream.checkpoint.as_mut().expect("it has one").lag_batches = 4,
            |stream| {
                let written = || folder::visible_files(&stream.output).len() as u64;
                let shipped = || batches(&store, Folder::Commits).len() as u64;
                let is_held_back = || written() >= shipped() + 4;
                wait_until("it lags", is_held_back);
                assert!(written() <= shipped() + 6, "{} batches are delivered, {} shipped", written(), shipped());
                assert!(written() < 20, "the run was over before it could be held back");
            },
        );
    }
}

#[test]
fn outputs_wait_for_the_checkpoint_when_they_are_to_leave_after_it() {
    let bench = Bench::new();
    let store = bench.store();
    clears_up(
        &bench,
        Weather::Down,
        |stream| stream.checkpoint.as_mut().expect("it has one").release = ReleaseMode::AfterCheckpoint,
        |stream| {
            let last = || stream.committed().into_iter().flatten().map(|batch| batch.0).min();
            let shipped = || batches(&store, Folder::Commits).last().copied();
            wait_until("more is committed than shipped", || last() > shipped());
            let written = folder::visible_files(&stream.output).len() as u64;
            assert!(written <= shipped().map_or(0, |batch| batch + 1), "{written} of {:?} are delivered", shipped());
        },
    );
}

#[test]
fn a_run_that_is_stopped_while_the_store_is_down_ends_and_the_next_one_ships_the_rest() {
    let bench = Bench::new();
    let (stream, faulty) = bench.in_weather(Weather::Fine);
    let stream = Stream { history_batches: 0, ..stream };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| stream.run_until(&stop, Fault::None));
        wait_until("it ships", || !batches(&bench.store(), Folder::Commits).is_empty());
        faulty.set(Weather::Down);
        wait_until("all is delivered", || {
            folder::visible_files(&stream.output).len() == folder::visible_files(&bench.undisturbed.output).len()
        });
        assert!(!run.is_finished(), "it did not wait for the checkpoint");
        stop.store(true, Ordering::Relaxed);
        run.join().expect("it does not panic").unwrap_or_else(|error| panic!("{error:#}"));
    });
    let missing = commits(&bench.store()).len();
    faulty.set(Weather::Fine);
    stream.run_to_the_end();
    assert!(commits(&bench.store()).len() > missing, "nothing was left to ship");
    bench.assert_same(&stream, "shipped by the next run");
    bench.assert_restores(&stream, "restored");
}

#[test]
fn a_damaged_object_that_is_there_already_is_written_anew() {
    let bench = Bench::new();
    let stream = bench.stream("mending");
    let store = bench.store();
    let damaged = [
        Object::Delta(PartitionId(0), BatchId(0)),
        Object::Delta(PartitionId(1), BatchId(4)),
        Object::Offsets(BatchId(2)),
        Object::Commit(BatchId(3)),
    ];
    for object in &damaged {
        store.create(object, "v1\nhalf of".into()).expect("it is new");
    }
    stream.run_to_the_end();
    bench.assert_same(&stream, "with damaged objects in its way");
    bench.assert_restores(&stream, "restored");
}
