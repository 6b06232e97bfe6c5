//! Two hosts and one checkpoint: only the one that came last goes on.

use super::bench::{Bench, batches, objects};
use crate::support::host::{Fault, Stream};
use crate::support::process::{Process, wait_until};
use crate::support::{command, data, folder};
use keyfold::checkpoint::layout::Folder;
use keyfold::checkpoint::object::{Offsets, of_text, to_text};
use keyfold::checkpoint::{CheckpointStore, Object, take_over};
use keyfold::clock::Clock;
use keyfold::event::BatchId;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Another data folder that takes the checkpoint over. Its outputs go to the same place.
fn successor(bench: &Bench, of: &Stream, name: &str) -> Stream {
    let successor = Stream { data: bench.work.path().join(name), ..of.clone() };
    take_over(&bench.store(), &successor.data, &Clock::System).unwrap_or_else(|error| panic!("{error:#}"));
    successor
}

fn plan_of(store: &CheckpointStore, batch: BatchId) -> Offsets {
    let object = Object::Offsets(batch);
    let bytes = store.read(&object).expect("it can be read").expect("it is there");
    of_text(&object.name(), &bytes).expect("it is whole")
}

#[test]
fn a_host_that_takes_over_goes_on_to_the_same_outputs_and_the_one_before_is_refused() {
    let bench = Bench::new();
    let first = bench.stream("first");
    first.run_into(Fault::BeforeDelivery(6));
    let second = successor(&bench, &first, "second");
    second.run_to_the_end();
    // The fence is a batch of its own, so numbers differ; all outputs are the same.
    assert_eq!(folder::lines(&second.output).len(), folder::lines(&bench.undisturbed.output).len());
    assert_eq!(second.states(), bench.undisturbed.states());
    bench.assert_restores(&second, "restored");
    let before = bench.objects();
    let error = first.run(Fault::None).expect_err("it was replaced");
    let text = format!("{error:#}");
    assert!(text.contains("another host has taken over") && text.contains("second"), "{text}");
    assert!(bench.objects() == before, "the old host has written");
}

#[test]
fn a_plan_of_the_host_before_that_was_faster_than_the_fence_is_adopted() {
    let bench = Bench::new();
    let first = bench.stream("first");
    first.run_into(Fault::BeforeDelivery(6));
    let store = bench.store();
    let second = successor(&bench, &first, "second");
    let last = *batches(&store, Folder::Offsets).last().expect("there are plans");
    // Awake for a moment, it plans one more batch.
    let mut late = plan_of(&store, BatchId(last));
    late.plan = keyfold::plan::Plan { batch: BatchId(last + 1), ranges: Vec::new(), ..late.plan };
    store.create(&Object::Offsets(BatchId(last + 1)), to_text(&late).expect("it is JSON")).expect("it is new");
    second.run_to_the_end();
    assert_eq!(plan_of(&store, BatchId(last + 1)), late);
    let fence = plan_of(&store, BatchId(last + 2));
    assert!(fence.plan.ranges.is_empty() && fence.epoch > late.epoch, "{fence:?}");
    assert_eq!(fence.plan.watermark, late.plan.watermark);
    assert_eq!(second.states(), bench.undisturbed.states());
    bench.assert_restores(&second, "restored");
}

#[test]
fn a_take_over_that_crashed_before_its_fence_writes_it_when_it_starts_again() {
    let bench = Bench::new();
    let first = bench.stream("first");
    first.run_into(Fault::BeforeDelivery(6));
    let last = *batches(&bench.store(), Folder::Offsets).last().expect("there are plans");
    let second = successor(&bench, &first, "second");
    assert_eq!(batches(&bench.store(), Folder::Offsets).last(), Some(&last));
    // As if it had crashed here: nobody asks for the take-over again.
    second.run_to_the_end();
    assert!(plan_of(&bench.store(), BatchId(last + 1)).plan.ranges.is_empty());
    assert_eq!(second.states(), bench.undisturbed.states());
}

#[test]
fn a_folder_that_was_restored_goes_on_only_when_it_takes_over() {
    let bench = Bench::new();
    let first = bench.stream("first");
    first.run_into(Fault::AfterDelivery(6));
    let second = Stream { data: bench.work.path().join("second"), ..first.clone() };
    let restore = || {
        let options = keyfold::checkpoint::restore::Options::default();
        keyfold::checkpoint::restore::restore(&bench.store(), &second.data, options, &mut ()).expect("it is whole");
    };
    restore();
    let error = second.run(Fault::None).expect_err("nobody said that the first one is gone");
    assert!(format!("{error:#}").contains("--take-over"), "{error:#}");
    // The first one goes on, and what was restored is too old.
    first.run_into(Fault::AfterDelivery(12));
    let error = take_over(&bench.store(), &second.data, &Clock::System).expect_err("it is too old");
    assert!(format!("{error:#}").contains("has gone on since"), "{error:#}");
    fs::remove_dir_all(&second.data).expect("it is there");
    restore();
    take_over(&bench.store(), &second.data, &Clock::System).unwrap_or_else(|error| panic!("{error:#}"));
    second.run_to_the_end();
    assert_eq!(second.states(), bench.undisturbed.states());
    bench.assert_restores(&second, "restored");
}

#[test]
fn an_epoch_that_a_crash_left_half_made_does_not_lock_its_host_out() {
    let bench = Bench::new();
    let stream = bench.stream("crashing");
    stream.run_into(Fault::AfterDelivery(2));
    let before = bench.work.path().join("before");
    stream.save(&before);
    stream.run_into(Fault::AfterDelivery(4));
    // The epoch of the second run never came to be: its host had only written down that it would make it.
    let epochs = || bench.store().list(Folder::Epochs).expect("it can be listed").len();
    let object = Object::Epoch(epochs() as u64);
    bench.store().delete(&[object]).expect("it is there");
    stream.run_to_the_end();
    assert_eq!(epochs(), 2);
    bench.assert_same(&stream, "after a crash at the start");
}

fn run(work: &Path, name: &str, flags: &[&str]) -> Command {
    let mut call = command::keyfold(["run", "--quiet", "--batch-events", "500", "--release", "after-checkpoint"]);
    call.arg("--input").arg(work.join("input")).arg("--data").arg(work.join(format!("{name}-data")));
    call.arg("--output").arg(work.join("output")).args(flags);
    call.arg("--checkpoint").arg(work.join("checkpoint")).arg(command::example("card-sessions"));
    call
}

/// A host sleeps, another one takes over, and the first one wakes up with more to do.
#[test]
fn a_host_that_wakes_up_after_it_was_replaced_delivers_nothing_more() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let (all, input) = (work.path().join("all"), work.path().join("input"));
    data::card_sessions(&all, 8_000, 9);
    let mut files: Vec<_> =
        fs::read_dir(&all).expect("it is there").map(|entry| entry.expect("it is").path()).collect();
    files.sort();
    fs::create_dir(&input).expect("it is new");
    let bring = |file: &Path| {
        fs::copy(file, input.join(file.file_name().expect("it has one"))).expect("the disk has room");
    };
    bring(&files[0]);

    let store = CheckpointStore::open(&work.path().join("checkpoint").display().to_string()).expect("it is ours");
    let mut first = Process::start(&mut run(work.path(), "first", &["--follow"]));
    let output = work.path().join("output");
    // Two thousand events: four batches, all in the checkpoint and delivered.
    wait_until("it has caught up", || {
        batches(&store, Folder::Commits).len() >= 4 && folder::visible_files(&output).len() >= 4
    });
    first.signal("-STOP");
    files[1..].iter().for_each(|file| bring(file));
    command::finish(&mut run(work.path(), "second", &["--take-over"])).ok();
    let (written, delivered) = (objects(&store), folder::files(&output));

    first.signal("-CONT");
    wait_until("it has ended", || !first.is_running());
    let finished = first.finish().with_code(1);
    assert!(finished.stderr.contains("another host has taken over"), "{}", finished.stderr);
    assert!(folder::files(&output) == delivered, "it has delivered");
    assert!(objects(&store) == written, "it has written to the checkpoint");
    // Both together have put out what one host would have.
    let mut lines = folder::lines(&output);
    command::finish(&mut run_alone(work.path(), &all)).ok();
    let mut expected = folder::lines(&work.path().join("alone-output"));
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected);
}

fn run_alone(work: &Path, input: &Path) -> Command {
    let mut call = command::keyfold(["run", "--quiet", "--batch-events", "500", "--input"]);
    call.arg(input).arg("--data").arg(work.join("alone-data")).arg("--output").arg(work.join("alone-output"));
    call.arg(command::example("card-sessions"));
    call
}

#[test]
fn nothing_can_be_taken_over_where_nothing_is() {
    let work = tempfile::tempdir().expect("a folder can be made");
    fs::create_dir(work.path().join("input")).expect("it is new");
    command::finish(&mut run(work.path(), "first", &["--take-over"])).fails_with(&["nothing to take over"]);
    let mut call = command::keyfold(["run", "--take-over"]);
    call.arg(command::example("card-sessions")).args(["--input", "x"]);
    command::finish(&mut call).fails_with(&["--checkpoint"]);
}
