//! The process ends at any moment of an append: what was answered is there, and what comes again is there once.

use super::scene::{Scene, events};
use keyfold::fault::STREAM_POINTS;
use keyfold::stream::{AppendRequest, EventNumber, Retention, StreamLog, StreamSettings};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::OnceLock;

/// Names the folder of the child and the request that it begins with.
const CHILD: &str = "KEYFOLD_TEST_STREAM_CHILD";
const REQUESTS: u64 = 24;
const PARTITIONS: u32 = 2;

/// Every event by partition and number.
type Whole = BTreeMap<(u32, u64), String>;
/// Where the events of a request are: partition and number of each.
type Places = Vec<(u32, u64)>;

/// A process that appends requests one after another, to be ended or failed somewhere.
pub struct Child {
    scene: Scene,
}

/// How it ended.
#[derive(Debug)]
pub enum Ended {
    /// All requests are answered; these codes were errors of some before they came again.
    Well { refused: Vec<String> },
    /// With an error of its own.
    Code { code: i32, said: String },
    /// It was ended.
    Crashed { answered: u64 },
}

impl Child {
    pub fn new() -> Self {
        Child { scene: scene() }
    }

    /// Appends all requests, or those that were not answered.
    pub fn run(&self, fault: Option<&str>) -> Ended {
        self.run_from(0, fault)
    }

    fn run_from(&self, first: u64, fault: Option<&str>) -> Ended {
        let mut child = Command::new(std::env::current_exe().expect("the test is a program"));
        child.args(["--exact", "streams::crashes::a_child_that_appends_one_request_after_another", "--nocapture"]);
        child.env(CHILD, format!("{first}:{}", self.scene.path().display()));
        child.env("KEYFOLD_FAULT", fault.unwrap_or_default());
        let ended = child.output().expect("the test can be started again");
        let lines = String::from_utf8_lossy(&ended.stdout).into_owned();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        // The first line may follow what the test's program says itself.
        let words =
            |word: &'static str| lines.lines().filter_map(move |line| Some(line.split_once(word)?.1.to_owned()));
        let answered = words("answered ").filter_map(|number| number.parse::<u64>().ok()).map(|last| last + 1).max();
        match ended.status.code() {
            Some(0) => Ended::Well { refused: words("refused ").collect() },
            Some(code) => Ended::Code { code, said },
            None => Ended::Crashed { answered: answered.unwrap_or(first) },
        }
    }

    /// Lets what was not answered come again, and checks.
    pub fn finish_and_check(&self, why: &str) {
        // All are known by their keys, so that all may come again as long as nothing is deleted.
        let log = self.scene.open();
        let first = if log.starts().iter().all(|start| start.line == 0) { 0 } else { self.first_missing(&log) };
        drop(log);
        assert!(matches!(self.run_from(first, None), Ended::Well { .. }), "{why}");
        self.check(why);
    }

    /// The first request of which some event is not there.
    fn first_missing(&self, log: &StreamLog) -> u64 {
        let ends = log.ends();
        let (_, of_requests) = whole();
        let is_there = |places: &Places| places.iter().all(|(part, number)| *number < ends[*part as usize].line);
        of_requests.iter().take_while(|places| is_there(places)).count() as u64
    }

    /// Panics unless the stream holds what it would without a failure.
    pub fn check(&self, why: &str) {
        let log = self.scene.open();
        let (whole, _) = whole();
        let found = all(&log);
        for (place, json) in &found {
            assert_eq!(whole.get(place), Some(json), "{place:?} {why}");
        }
        for (partition, (start, end)) in (0..).zip(log.starts().into_iter().zip(log.ends())) {
            let expected = whole.keys().filter(|(of, _)| *of == partition).count() as u64;
            assert_eq!(end.line, expected, "partition {partition} {why}");
            assert_eq!(found.keys().filter(|(of, _)| *of == partition).count() as u64, expected - start.line, "{why}");
        }
    }
}

fn scene() -> Scene {
    let retention = Retention { bytes: Some(5_000), age: None };
    let settings =
        StreamSettings { partitions: PARTITIONS, key: Some("/k".to_owned()), retention, ..StreamSettings::default() };
    Scene::small(settings, 2000, 300)
}

fn all(log: &StreamLog) -> Whole {
    let mut found = Whole::new();
    for partition in 0..PARTITIONS {
        let stored = log.read(partition, EventNumber(0), super::scene::ALL).unwrap_or_else(|error| panic!("{error:#}"));
        for event in stored {
            let json = String::from_utf8(event.json).expect("it is UTF-8");
            found.insert((partition, event.number.0), json);
        }
    }
    found
}

/// What the requests make without a failure, and where each request's events are.
fn whole() -> &'static (Whole, Vec<Places>) {
    static WHOLE: OnceLock<(Whole, Vec<Places>)> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let scene =
            Scene { settings: StreamSettings { retention: Retention::default(), ..scene().settings }, ..scene() };
        let log = scene.open();
        let mut places = Vec::new();
        for number in 0..REQUESTS {
            let appended = request(&log, number).unwrap_or_else(|error| panic!("{error}"));
            places.push(appended.placed.iter().map(|placed| (placed.partition, placed.number.0)).collect());
        }
        (all(&log), places)
    })
}

fn request(log: &StreamLog, number: u64) -> Result<keyfold::stream::Appended, keyfold::stream::AppendError> {
    let events = events(number * 100..number * 100 + 1 + number % 20);
    let idempotency_key = Some(format!("request-{number}"));
    let producer = number.is_multiple_of(3).then(|| ("rule".to_owned(), number));
    log.append(AppendRequest { events, idempotency_key, producer, ..AppendRequest::default() })
}

/// Nothing to see here by itself: a process of its own is needed for what ends a process.
#[test]
fn a_child_that_appends_one_request_after_another() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let (first, path) = asked.split_once(':').expect("a number and a folder");
    let Scene { settings, limits, clock, .. } = scene();
    let log = StreamLog::open(std::path::Path::new(path), settings, clock, limits)
        .unwrap_or_else(|error| panic!("{error:#}"));
    let mut number = first.parse().expect("a number");
    println!();
    while number < REQUESTS {
        match request(&log, number) {
            Ok(_) => {
                println!("answered {number}");
                number += 1;
            }
            Err(error) => println!("refused {}", error.code()),
        }
        if number == REQUESTS - 4 {
            log.retain(&[]).unwrap_or_else(|error| panic!("{error:#}"));
        }
    }
}

#[test]
fn a_crash_at_any_point_of_a_stream_loses_nothing_that_was_answered_and_doubles_nothing() {
    let mut tried = 0;
    for point in STREAM_POINTS {
        for nth in [1, 2, 3, 11] {
            let child = Child::new();
            match child.run(Some(&format!("{point}:{nth}=abort"))) {
                Ended::Crashed { answered } => {
                    tried += 1;
                    let log = child.scene.open();
                    assert!(child.first_missing(&log) >= answered, "{point}:{nth}: something answered is gone");
                    drop(log);
                    child.finish_and_check(&format!("after a crash at {point}:{nth}"));
                }
                Ended::Well { .. } => assert!(nth > 3, "{point}:{nth} was not met"),
                other => panic!("{point}:{nth}: {other:?}"),
            }
        }
    }
    println!("{tried} crashes at {} points", STREAM_POINTS.len());
}

#[test]
fn two_crashes_one_after_the_other_are_no_worse_than_one() {
    for first in ["segment-written", "block-half-written", "block-written", "block-synced"] {
        for second in ["segment-placed", "block-half-written", "block-synced", "stream-shown"] {
            let child = Child::new();
            let Ended::Crashed { .. } = child.run(Some(&format!("{first}:4=abort"))) else {
                panic!("{first} was not met")
            };
            let Ended::Crashed { .. } = child.run(Some(&format!("{second}:2=abort"))) else {
                panic!("{second} was not met after {first}")
            };
            child.finish_and_check(&format!("after crashes at {first} and {second}"));
        }
    }
}
