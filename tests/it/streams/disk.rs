//! The disk is full or fails: the request is refused, nothing of it stays, and when there is space again everything goes on.

use super::crashes::{Child, Ended};
use super::scene::{Scene, append, events, numbers, try_append};
use crate::support::folder;
use keyfold::stream::{AppendError, StreamSettings};
use std::process::Command;

/// Names the folder of the child that runs into a limit on the size of its files.
const CHILD: &str = "KEYFOLD_TEST_STREAM_LIMIT";

#[test]
fn a_request_for_which_there_is_no_space_is_refused_and_taken_when_there_is_some() {
    for point in ["segment-begin", "block-half-written", "block-written"] {
        for nth in 1..=4 {
            let child = Child::new();
            let ended = child.run(Some(&format!("{point}:{nth}=full")));
            let Ended::Well { refused } = ended else { panic!("{point}:{nth}: {ended:?}") };
            assert_eq!(refused, ["no-space"], "{point}:{nth}");
            child.check(&format!("with a full disk at {point}:{nth}"));
        }
    }
}

#[test]
fn a_request_that_the_disk_does_not_take_is_refused_and_nothing_of_it_stays() {
    for point in ["segment-begin", "block-half-written", "block-written"] {
        let child = Child::new();
        let ended = child.run(Some(&format!("{point}:2=eio")));
        let Ended::Well { refused } = ended else { panic!("{point}: {ended:?}") };
        assert_eq!(refused, ["stream-failed"], "{point}");
        child.check(&format!("with a failure at {point}"));
    }
}

#[test]
fn a_sync_that_fails_ends_the_process_and_what_was_answered_stays() {
    for nth in 1..=3 {
        let child = Child::new();
        let ended = child.run(Some(&format!("block-sync:{nth}=eio")));
        let Ended::Code { code: 1, said } = ended else { panic!("{ended:?}") };
        assert!(said.contains("failed to sync") && said.contains("the process ends"), "{said}");
        child.finish_and_check(&format!("after failed sync {nth}"));
    }
}

#[test]
fn a_file_that_can_grow_no_further_in_the_middle_of_a_write_refuses_the_request_and_keeps_the_others() {
    let folder = folder::fast();
    // The limit ends a write wherever the file reaches it; without the trap it would end the process.
    let mut child = Command::new("sh");
    child.args(["-c", "trap '' XFSZ; ulimit -f 20; exec \"$0\" \"$@\""]);
    child.arg(std::env::current_exe().expect("the test is a program"));
    child.args(["--exact", "streams::disk::a_child_of_the_test_above_fills_a_file", "--nocapture"]);
    let ended = child.env(CHILD, folder.path()).output().expect("there is a shell");
    let (said, log) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{said}{log}");
    let taken = said.split_once("taken ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok());
    let taken = taken.unwrap_or_else(|| panic!("{said}"));
    let scene = Scene { folder, ..Scene::new(StreamSettings::default()) };
    let log = scene.open();
    assert!(taken > 10, "{taken}");
    assert_eq!(numbers(&log, 0), (0..taken).collect::<Vec<_>>());
    append(&log, events([taken]));
    assert_eq!(log.ends()[0].line, taken + 1);
}

/// Nothing to see here by itself: the limit is on a process of its own.
#[test]
fn a_child_of_the_test_above_fills_a_file() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let scene = Scene::new(StreamSettings::default());
    let log = keyfold::stream::StreamLog::open(
        &std::path::Path::new(&path).join("stream"),
        scene.settings.clone(),
        scene.clock.clone(),
        scene.limits.clone(),
    )
    .unwrap_or_else(|error| panic!("{error:#}"));
    let mut number = 0;
    let error = loop {
        // Blocks that cannot be compressed much, and are longer than what is left at the end.
        match try_append(&log, events([number])) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AppendError::Full(_)), "{error:?}");
    assert_eq!(numbers(&log, 0), (0..number).collect::<Vec<_>>(), "it can be read on");
    assert!(matches!(try_append(&log, events([number])), Err(AppendError::Full(_))), "it is refused again");
    println!("taken {number} ");
}
