//! A rule reads a stream and puts out into another one: whatever ends the process, each output is there once.

use super::scene::{Scene, append, read};
use crate::support::host::{Nobody, Stream};
use crate::support::{few, folder};
use keyfold::event::InputId;
use keyfold::host::Trigger;
use keyfold::sink::StreamSink;
use keyfold::stream::{NewEvent, StreamLog, StreamSettings, StreamSource};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Names the folder of the child.
const CHILD: &str = "KEYFOLD_TEST_STREAM_RULE";
const PRODUCER: &str = "the-rule";

fn log(work: &Path, name: &str, key: &str) -> Arc<StreamLog> {
    let settings = StreamSettings { partitions: 2, key: Some(key.to_owned()), ..StreamSettings::default() };
    let Scene { clock, limits, .. } = Scene::small(settings.clone(), 2000, 300);
    Arc::new(StreamLog::open(&work.join(name), settings, clock, limits).unwrap_or_else(|error| panic!("{error:#}")))
}

/// Lets the rule read what the stream has.
fn run(work: &Path) {
    let (input, output) = (log(work, "in", "/user_id"), log(work, "out", "/user_id"));
    let rule = Stream {
        event_time: Some("/ts"),
        batch_events: 9,
        partitions: 2,
        ..Stream::of_example("card-sessions", work, "rule")
    };
    let sink = StreamSink::new(output, PRODUCER.to_owned());
    let mut host = rule.open(Box::new(sink)).unwrap_or_else(|error| panic!("{error:#}"));
    let mut source = StreamSource::new(InputId(0), Arc::clone(&input), input.starts()).until(input.ends());
    host.run(&mut source, Trigger::AvailableNow, &AtomicBool::new(false), &mut Nobody)
        .unwrap_or_else(|error| panic!("{error:#}"));
}

fn fill(work: &Path) {
    let payments = few::payments(44).into_iter().filter_map(|line| NewEvent::new(line).ok());
    let events: Vec<NewEvent> = payments.filter(|event| !event.json().windows(4).any(|part| part == b"null")).collect();
    let input = log(work, "in", "/user_id");
    events.chunks(5).for_each(|events| drop(append(&input, events.to_vec())));
}

fn outputs(work: &Path) -> Vec<Vec<String>> {
    let output = log(work, "out", "/user_id");
    (0..2).map(|partition| read(&output, partition)).collect()
}

/// Nothing to see here by itself: a process of its own is needed for what ends a process.
#[test]
fn a_child_that_runs_a_rule_over_streams() {
    if let Ok(work) = std::env::var(CHILD) {
        run(Path::new(&work));
    }
}

fn run_child(work: &Path, fault: &str) -> bool {
    let mut child = Command::new(std::env::current_exe().expect("the test is a program"));
    child.args(["--exact", "streams::rules::a_child_that_runs_a_rule_over_streams", "--nocapture"]);
    let ended = child.env(CHILD, work).env("KEYFOLD_FAULT", fault).output().expect("the test can be started again");
    let is_well = ended.status.success();
    assert!(is_well || ended.status.code().is_none(), "{}", String::from_utf8_lossy(&ended.stderr));
    is_well
}

#[test]
fn a_rule_whose_process_ends_anywhere_puts_each_output_into_the_stream_once() {
    let undisturbed = folder::fast();
    fill(undisturbed.path());
    run(undisturbed.path());
    let expected = outputs(undisturbed.path());
    assert!(expected.iter().map(Vec::len).sum::<usize>() > 8, "{expected:?}");
    let points = ["replay-read", "plan-written", "committed", "deliver-begin", "delivered", "delivered-written"];
    let of_streams = ["segment-written", "block-half-written", "block-written", "block-synced", "stream-shown"];
    let mut crashes = 0;
    for point in points.iter().chain(&of_streams) {
        for nth in 1..=3 {
            let work = folder::fast();
            folder::copy(&undisturbed.path().join("in"), &work.path().join("in"));
            let why = format!("after a crash at {point}:{nth}");
            if run_child(work.path(), &format!("{point}:{nth}=abort")) {
                continue;
            }
            crashes += 1;
            // Once more, where the next run goes on.
            run_child(work.path(), &format!("{point}:1=abort"));
            run(work.path());
            assert_eq!(outputs(work.path()), expected, "{why}");
        }
    }
    println!("{crashes} crashes");
    assert!(crashes > 20, "{crashes} crashes are too few");
}
