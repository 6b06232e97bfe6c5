//! Requests from many threads: each is answered when it is on the disk, and they share the syncs.

use super::scene::{Scene, append, event, events, numbers, read, try_append};
use crate::support::process::wait_until;
use keyfold::event::Position;
use keyfold::stream::{AppendError, AppendRequest, Appended, NewEvent, Placed, StreamSettings};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

#[test]
fn requests_of_many_threads_share_syncs_and_every_one_is_there_once_and_in_its_order() {
    const THREADS: u64 = 16;
    const REQUESTS: u64 = 40;
    // A disk that takes its time, as disks do; in memory a sync is over before the next request comes.
    let mut scene = Scene::new(StreamSettings::default());
    scene.folder = tempfile::tempdir().expect("the folder for temporary files can be written");
    let log = scene.open();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                let mut last = None;
                for request in 0..REQUESTS {
                    let number = thread * 1000 + request;
                    let appended = append(log, events([number, number + 500]));
                    let placed: Vec<u64> = appended.placed.iter().map(|placed| placed.number.0).collect();
                    assert_eq!(placed[1], placed[0] + 1, "events of a request lie together");
                    assert!(last < Some(placed[0]), "a later request lies later");
                    last = Some(placed[1]);
                }
            });
        }
    });
    let counts = log.counts();
    println!("{} requests of {THREADS} threads: {} commits, {} syncs", counts.requests, counts.commits, counts.syncs);
    assert_eq!((counts.requests, counts.events), (THREADS * REQUESTS, 2 * THREADS * REQUESTS));
    assert_eq!(counts.syncs, counts.commits, "one partition, one sync");
    assert!(counts.syncs * 2 < counts.requests, "{counts:?}");
    let found = numbers(&log, 0);
    for thread in 0..THREADS {
        let own: Vec<u64> = found.iter().copied().filter(|number| number / 1000 == thread).map(|n| n % 1000).collect();
        assert_eq!(own, (0..REQUESTS).flat_map(|request| [request, request + 500]).collect::<Vec<_>>());
    }
    let before = read(&log, 0);
    drop(log);
    assert_eq!(read(&scene.open(), 0), before);
}

#[test]
fn whoever_asks_is_told_the_places_before_anybody_can_read_them() {
    let scene = Scene::new(StreamSettings::default());
    let log = scene.open();
    let woken = Arc::new(AtomicU64::new(0));
    let subscription = {
        let (woken, seen) = (Arc::clone(&woken), Arc::downgrade(&log));
        log.subscribe(Arc::new(move || {
            let end = seen.upgrade().map_or(0, |log| log.ends()[0].line);
            woken.fetch_max(end, Ordering::SeqCst);
        }))
    };
    let (begin, threads) = (Barrier::new(8), 8);
    let told = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (log, begin, told) = (&log, &begin, &told);
            scope.spawn(move || {
                begin.wait();
                for request in 0..20 {
                    let mut places: Vec<Placed> = Vec::new();
                    let mut on_placed = |placed: &[_]| {
                        places = placed.to_vec();
                        assert!(log.ends()[0].line <= places[0].number.0, "it can be read already");
                        told.fetch_add(1, Ordering::SeqCst);
                    };
                    let request = AppendRequest {
                        events: events([thread * 100 + request]),
                        on_placed: Some(&mut on_placed),
                        ..AppendRequest::default()
                    };
                    let appended = log.append(request).expect("there is space");
                    assert_eq!(appended.placed, places);
                    assert!(log.ends()[0].line > places[0].number.0, "it was answered and cannot be read");
                }
            });
        }
    });
    assert_eq!(told.into_inner(), 160);
    wait_until("all subscribers were called", || woken.load(Ordering::SeqCst) == 160);
    drop(subscription);
    append(&log, events([1]));
    assert_eq!(woken.load(Ordering::SeqCst), 160, "a subscription that ended was called");
}

#[test]
fn events_are_spread_by_their_key_and_those_of_a_key_stay_in_order() {
    let settings = StreamSettings { partitions: 4, key: Some("/k".to_owned()), ..StreamSettings::default() };
    let scene = Scene::small(settings, 2000, 300);
    let log = scene.open();
    for request in 0..20 {
        let appended = append(&log, events(request * 50..(request + 1) * 50));
        assert_eq!(appended.placed.iter().map(|placed| placed.index).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
    }
    let check = |log: &_| {
        let of_partition: Vec<Vec<u64>> = (0..4).map(|partition| numbers(log, partition)).collect();
        assert_eq!(of_partition.iter().flatten().collect::<BTreeSet<_>>().len(), 1000);
        for (partition, found) in of_partition.iter().enumerate() {
            assert!(found.is_sorted(), "partition {partition} is out of order");
            let keys: BTreeSet<u64> = found.iter().map(|number| number % 10).collect();
            let elsewhere = of_partition.iter().enumerate().filter(|(other, _)| *other != partition);
            assert!(elsewhere.flat_map(|(_, found)| found).all(|number| !keys.contains(&(number % 10))));
        }
    };
    check(&log);
    drop(log);
    check(&scene.open());
    let fewer = Scene { settings: StreamSettings::default(), ..scene };
    let error = format!("{:#}", fewer.try_open().err().expect("there are four partitions"));
    assert!(error.contains("has a partition"), "{error}");
}

#[test]
fn a_request_with_an_invalid_event_is_refused_as_a_whole_and_names_it() {
    let settings =
        StreamSettings { partitions: 2, key: Some("/k".to_owned()), event_bytes_max: 60, ..StreamSettings::default() };
    let log = Scene::new(settings).open();
    let json = |text: &str| NewEvent::new(text).expect("it is JSON");
    let request = vec![event(1), json("{\"other\":1}"), json("{\"k\":[]}"), event(6)];
    let error = try_append(&log, request).expect_err("three cannot be taken");
    let AppendError::Invalid(invalid) = &error else { panic!("{error:?}") };
    let named: Vec<_> = invalid.iter().map(|event| (event.index, event.code)).collect();
    assert_eq!(named, [(1, "missing-key"), (2, "unsupported-key"), (3, "event-too-long")]);
    assert!(error.to_string().contains("event 1: the key /k is missing"), "{error}");
    assert_eq!(log.ends(), [Position::default(); 2]);
    assert_eq!(append(&log, Vec::new()), Appended::default(), "nothing is easily done");
}

#[test]
fn more_than_may_wait_is_refused_until_some_is_done() {
    let mut scene = Scene::new(StreamSettings::default());
    scene.limits.waiting_bytes_max = 1000;
    let log = scene.open();
    // One alone may be larger.
    append(&log, events(0..100));
    let refused = std::sync::Mutex::new(None);
    let mut on_placed = |_: &[_]| {
        // What is being written still counts as waiting, as long as nobody can read it.
        let error = try_append(&log, events([1])).expect_err("too much waits");
        *refused.lock().expect("nobody panics") = Some(error);
    };
    let request = AppendRequest { events: events(0..100), on_placed: Some(&mut on_placed), ..AppendRequest::default() };
    log.append(request).expect("there is space");
    let refused = refused.into_inner().expect("nobody panics").expect("it was tried");
    assert!(matches!(refused, AppendError::Busy { .. }) && refused.code() == "stream-busy", "{refused:?}");
    append(&log, events([1]));
    assert_eq!(log.ends()[0].line, 201);
}
