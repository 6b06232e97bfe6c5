//! The binary is ended at every point where it can be, alone and in pairs, and goes on as if nothing had happened.

mod scene;
mod table;

use crate::support::folder;
use keyfold::fault::POINTS;
use scene::{Ended, Scene};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use table::{LONG_LOG, OF_SWAPS, POINTS_IN_ROWS};

/// Of a point that is met more often, the first occurrences are tried.
const OCCURRENCES_MAX: usize = 3;
/// Runs at the same time: most of their time is spent starting.
const THREADS: usize = 2;

/// Does something with each of many, on a few threads.
fn each<T: Sync>(many: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(one) = many.get(next.fetch_add(1, Ordering::Relaxed)) {
                    act(one);
                }
            });
        }
    });
}

#[test]
fn the_table_of_points_is_complete() {
    let named: Vec<&str> = POINTS_IN_ROWS.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, POINTS, "each point has a row in the table, in the same order");
}

#[test]
fn a_crash_at_any_point_changes_nothing_that_anybody_can_see() {
    let work = folder::fast();
    let scene = Scene::whole(work.path());
    let (undisturbed, met) = scene.undisturbed();
    let mut crashes = Vec::new();
    let mut points = BTreeSet::new();
    for (step, met) in met.iter().enumerate() {
        for (point, &count) in met {
            points.insert(point.clone());
            crashes.extend((1..=count.min(OCCURRENCES_MAX)).map(|nth| (step, point.clone(), nth)));
        }
    }
    let never: Vec<_> = POINTS.iter().filter(|point| !points.contains(**point)).collect();
    let elsewhere = |point: &&&str| LONG_LOG.contains(point) || OF_SWAPS.contains(point) || **point == "replay-read";
    let expected_never: Vec<_> = POINTS.iter().filter(elsewhere).collect();
    assert_eq!(never, expected_never, "a point that is never met is never tried");
    println!("{} crashes at {} points", crashes.len(), points.len());
    each(&crashes, |(crashed, point, nth)| {
        let why = format!("after a crash in step {crashed} at {point}:{nth}");
        let place = folder::fast();
        scene.copy_before(*crashed, place.path());
        let ended = scene.play(*crashed, place.path(), Some((point, *nth)));
        assert!(ended == Ended::Crashed || may_not_be_met(point, *nth), "{why}: it was not met");
        for step in *crashed..scene.steps() {
            assert_eq!(scene.play(step, place.path(), None), Ended::Well, "{why}, in step {step}");
        }
        scene.seen(place.path()).assert_same(&undisturbed, &why);
    });
}

/// How often the plan log is written depends on when the delivering thread reports: what it reported waits for the next plan.
fn may_not_be_met(point: &str, nth: usize) -> bool {
    nth > 1 && ["plan-log-write", "delivered-begin", "delivered-written"].contains(&point)
}

#[test]
fn a_second_crash_while_the_first_is_recovered_from_changes_nothing_either() {
    let work = folder::fast();
    let scene = Scene::smallest(work.path());
    let (undisturbed, met) = scene.undisturbed();
    let firsts: Vec<(&str, usize)> = met[0]
        .iter()
        // The last occurrence leaves the most to recover from.
        .flat_map(|(point, &count)| BTreeSet::from([1, count]).into_iter().map(move |nth| (point.as_str(), nth)))
        .collect();
    let tried = AtomicUsize::new(0);
    let replayed = AtomicUsize::new(0);
    each(&firsts, |&(first, nth)| {
        let crashed = folder::fast();
        scene.copy_before(0, crashed.path());
        let ended = scene.play(0, crashed.path(), Some((first, nth)));
        assert!(ended == Ended::Crashed || may_not_be_met(first, nth), "{first}:{nth} was not met");
        if ended != Ended::Crashed {
            return;
        }
        for second in POINTS.iter().filter(|point| !LONG_LOG.contains(point)) {
            let why = format!("after a crash at {first}:{nth} and one at {second}");
            let place = folder::fast();
            folder::copy(crashed.path(), place.path());
            if scene.play(0, place.path(), Some((second, 1))) == Ended::Crashed {
                tried.fetch_add(1, Ordering::Relaxed);
                replayed.fetch_add(usize::from(*second == "replay-read"), Ordering::Relaxed);
                assert_eq!(scene.play(0, place.path(), None), Ended::Well, "{why}");
            }
            scene.seen(place.path()).assert_same(&undisturbed, &why);
        }
    });
    println!("{} pairs of crashes", tried.load(Ordering::Relaxed));
    assert!(replayed.into_inner() > 0, "replay-read is met only in the run after a crash, and was not");
}

#[test]
fn a_crash_around_the_copying_of_a_long_log_changes_nothing_that_anybody_can_see() {
    let work = folder::fast();
    let scene = Scene::with_long_log(work.path());
    let (undisturbed, met) = scene.undisturbed();
    let met: BTreeMap<String, usize> = met.into_iter().flatten().collect();
    for point in LONG_LOG {
        assert!(met.contains_key(*point), "{point} is never met, and so never tried");
        let place = folder::fast();
        scene.copy_before(0, place.path());
        assert_eq!(scene.play(0, place.path(), Some((point, 1))), Ended::Crashed, "{point} was not met");
        assert_eq!(scene.play(0, place.path(), None), Ended::Well, "after a crash at {point}");
        scene.seen(place.path()).assert_same(&undisturbed, &format!("after a crash at {point}"));
    }
}
