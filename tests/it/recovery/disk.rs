//! The disk does not take what is written: it is full, or it fails.

use crate::support::deliveries::Deliveries;
use crate::support::host::{Nobody, Stream};
use crate::support::process::wait_until;
use crate::support::vfs::{Calls, Error, Failure, Watch};
use crate::support::{few, folder};
use keyfold::host::Trigger;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Names the folder of the child and which of its syncs fails.
const CHILD: &str = "KEYFOLD_TEST_FAILED_SYNC";

/// Input, and what a run without a failure makes of it.
struct Trial {
    work: TempDir,
    undisturbed: Stream,
    outputs: BTreeMap<u64, String>,
    /// The writes and syncs of a run until its host is closed, and of opening it alone.
    writes: u64,
    syncs: u64,
    writes_of_open: u64,
}

impl Trial {
    fn new() -> Self {
        let work = folder::fast();
        few::write(&work.path().join("input"), &few::payments(30), 1);
        let undisturbed = stream(work.path(), "undisturbed");
        let watch = Watch::folder(&undisturbed.data);
        let sink = Deliveries::default();
        let mut host = undisturbed.open(Box::new(sink.clone())).expect("the folder is new");
        let writes_of_open = watch.writes();
        let mut source = undisturbed.source().expect("the input is there");
        host.run(&mut source, Trigger::AvailableNow, &AtomicBool::new(false), &mut Nobody).expect("nothing fails");
        let (writes, syncs) = (watch.writes(), watch.syncs());
        drop(host);
        assert!(sink.lines().len() > 2, "{:?}", sink.lines());
        Trial { outputs: sink.lines(), work, undisturbed, writes, syncs, writes_of_open }
    }

    /// Compares everything that a user can see.
    fn check(&self, stream: &Stream, sink: &Deliveries, why: &str) {
        assert_eq!(sink.lines(), self.outputs, "other outputs {why}");
        assert_eq!(stream.states(), self.undisturbed.states(), "other states {why}");
        assert_eq!(stream.dead_letters(), self.undisturbed.dead_letters(), "other dead letters {why}");
    }
}

/// Few partitions and batches, because each of their writes fails once.
fn stream(work: &Path, name: &str) -> Stream {
    let stream = Stream::of_example("card-sessions", work, name);
    Stream { event_time: Some("/ts"), batch_events: 9, partitions: 2, threads: 1, ..stream }
}

#[test]
fn a_disk_that_is_full_at_any_write_holds_the_run_and_it_goes_on_when_there_is_space() {
    let trial = Trial::new();
    println!("{} writes, {} of them to open", trial.writes, trial.writes_of_open);
    for first in 0..trial.writes {
        let why = format!("with a full disk at write {first}");
        let stream = stream(trial.work.path(), &format!("full-{first}"));
        let sink = Deliveries::default();
        let watch = Watch::folder(&stream.data);
        watch.fail(Failure { calls: Calls::Writes, first, count: 2, error: Error::Full });
        match stream.run_with(Box::new(sink.clone())) {
            Ok(()) => {}
            // A folder that cannot be made is an error, and a second try makes it.
            Err(error) => {
                assert!(first < trial.writes_of_open, "{why} the run ended: {error:#}");
                // The second failure may come in the second try.
                let again = || stream.run_with(Box::new(sink.clone()));
                again().or_else(|_| again()).unwrap_or_else(|error| panic!("{why}: {error:#}"));
            }
        }
        trial.check(&stream, &sink, &why);
        std::fs::remove_dir_all(&stream.data).expect("it is there");
    }
}

#[test]
fn a_run_that_waits_for_space_ends_when_it_is_asked_to_and_the_next_one_goes_on() {
    let trial = Trial::new();
    // One in the plan log and one in a commit, wherever they are exactly.
    for first in [trial.writes_of_open + 1, (trial.writes_of_open + trial.writes) / 2, trial.writes - 8] {
        let stream = stream(trial.work.path(), &format!("asked-{first}"));
        let sink = Deliveries::default();
        let watch = Watch::folder(&stream.data);
        watch.fail(Failure { calls: Calls::Writes, first, count: u64::MAX - first, error: Error::Full });
        let stop = AtomicBool::new(false);
        let mut host = stream.open(Box::new(sink.clone())).expect("there is space to open it");
        let mut source = stream.source().expect("the input is there");
        let ran = std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("it was tried again", || watch.writes() > first + 3);
                stop.store(true, Ordering::Relaxed);
            });
            host.run(&mut source, Trigger::AvailableNow, &stop, &mut Nobody)
        });
        let error = format!("{:#}", ran.expect_err("what was planned could not be committed"));
        assert!(error.contains("the disk is full: make space and run again"), "{error}");
        drop(host);
        drop(watch);
        stream.run_with(Box::new(sink.clone())).unwrap_or_else(|error| panic!("{error:#}"));
        trial.check(&stream, &sink, "after it had waited for space");
    }
}

#[test]
fn a_write_that_fails_ends_the_run_with_the_name_of_the_file_and_the_next_one_goes_on() {
    let trial = Trial::new();
    for first in (0..trial.writes).step_by(5) {
        let why = format!("with a failed write {first}");
        let stream = stream(trial.work.path(), &format!("failed-{first}"));
        let sink = Deliveries::default();
        let watch = Watch::folder(&stream.data);
        watch.fail(Failure { calls: Calls::Writes, first, count: 1, error: Error::Io });
        if let Err(error) = stream.run_with(Box::new(sink.clone())) {
            let error = format!("{error:#}");
            assert!(error.contains("disk I/O error"), "{why}: {error}");
        }
        stream.run_with(Box::new(sink.clone())).unwrap_or_else(|error| panic!("{why}: {error:#}"));
        trial.check(&stream, &sink, &why);
    }
}

#[test]
fn a_sync_that_fails_ends_the_process_at_once_and_the_next_start_is_clean() {
    let trial = Trial::new();
    println!("{} syncs", trial.syncs);
    let program = std::env::current_exe().expect("the test is a program");
    for first in 0..trial.syncs {
        let why = format!("with a failed sync {first}");
        let name = format!("sync-{first}");
        let mut child = Command::new(&program);
        child.args(["--exact", "recovery::disk::a_child_of_the_test_above_runs_into_a_failed_sync", "--nocapture"]);
        child.env(CHILD, format!("{first}:{name}:{}", trial.work.path().display()));
        let ended = child.output().expect("the test can be started again");
        let said = String::from_utf8_lossy(&ended.stderr);
        // SQLite does not say why it could not make a file: that is an error which ends the run, and in a test with this code.
        const FAILED_TEST: i32 = 101;
        match ended.status.code() {
            Some(1) => assert!(said.contains("failed to sync") && said.contains("the process ends"), "{why}: {said}"),
            Some(FAILED_TEST) => assert!(said.contains("could not be put into WAL mode"), "{why}: {said}"),
            _ => panic!("{why} the run went on: {said}"),
        }
        let stream = stream(trial.work.path(), &name);
        // What the child had delivered is in files.
        stream.run_to_the_end();
        folder::assert_same_files(&stream.output, &of_files(&trial), &why);
        assert_eq!(stream.states(), trial.undisturbed.states(), "other states {why}");
        assert_eq!(stream.dead_letters(), trial.undisturbed.dead_letters(), "other dead letters {why}");
    }
}

/// The files that an undisturbed run writes.
fn of_files(trial: &Trial) -> std::path::PathBuf {
    let stream = stream(trial.work.path(), "files");
    if !stream.data.exists() {
        stream.run_to_the_end();
    }
    stream.output
}

/// Nothing to see here by itself: a process of its own is needed for what ends a process.
#[test]
fn a_child_of_the_test_above_runs_into_a_failed_sync() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let mut parts = asked.splitn(3, ':');
    let first = parts.next().and_then(|first| first.parse().ok()).expect("a number");
    let (name, work) = (parts.next().expect("a name"), parts.next().expect("a folder"));
    let stream = stream(Path::new(work), name);
    let watch = Watch::folder(&stream.data);
    watch.fail(Failure { calls: Calls::Syncs, first, count: 1, error: Error::Io });
    stream.run_to_the_end();
}
