//! What a run writes to its checkpoint, and what it deletes there.

use super::bench::{Bench, batches, commits, objects};
use crate::support::host::{Fault, Stream};
use crate::support::process::{Process, wait_until};
use crate::support::{command, data, folder};
use keyfold::checkpoint::layout::Folder;
use keyfold::checkpoint::object::checksum_of;
use keyfold::checkpoint::store::Listed;
use keyfold::checkpoint::{CheckpointStore, Object};
use keyfold::event::PartitionId;
use keyfold::r#gen::Random;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_checkpoint_has_the_objects_that_are_documented_and_no_others() {
    let bench = Bench::new();
    let stream = bench.stream("written");
    stream.run_to_the_end();
    bench.assert_same(&stream, "with a checkpoint");
    let commits = commits(&bench.store());
    let last = commits.len() as u64 - 1;
    assert!(last > 20 && (0..=last).eq(commits.iter().map(|(batch, _)| batch.0)), "{last}");
    let mut expected = BTreeSet::from(["metadata".to_owned(), "epoch/1".to_owned()]);
    expected.extend(
        std::fs::read_dir(stream.data.join("components"))
            .expect("components are kept")
            .map(|entry| format!("components/{}", entry.expect("it can be read").file_name().display())),
    );
    let objects = bench.objects();
    for (batch, commit) in commits {
        expected.extend([format!("offsets/{batch}"), format!("commits/{batch}")]);
        for (partition, of_partition) in commit.partitions.iter().enumerate() {
            let Some(checksum) = of_partition.delta else { continue };
            let name = format!("state/0/{partition}/{batch}.delta");
            assert_eq!(objects.get(&name).and_then(|bytes| checksum_of(bytes)), Some(checksum), "{name}");
            expected.insert(name);
        }
        assert!(commit.delivered <= Some(batch) && commit.epoch == 1);
    }
    assert_eq!(objects.into_keys().collect::<BTreeSet<_>>(), expected);
    bench.assert_restores(&stream, "restored");
}

#[test]
fn the_newest_snapshots_are_kept_and_what_comes_after_them() {
    let bench = Bench::new();
    let mut stream = bench.stream("retained");
    let settings = stream.checkpoint.as_mut().expect("it has one");
    (settings.snapshot_batches, settings.retained) = (4, 2);
    stream.run_to_the_end();
    bench.assert_same(&stream, "with snapshots");
    let store = bench.store();
    let mut lowest = u64::MAX;
    for partition in (0..stream.partitions).map(PartitionId) {
        let snapshots = batches(&store, Folder::Partition(partition));
        assert!(snapshots.len() >= 2, "partition {partition} has {snapshots:?}");
        lowest = lowest.min(snapshots[snapshots.len() - 2]);
    }
    let commits = batches(&store, Folder::Commits);
    assert!(commits[0] > 0 && commits[0] <= lowest, "{commits:?} and the snapshots begin with {lowest}");
    assert_eq!(commits.len() as u64, commits[commits.len() - 1] - commits[0] + 1, "{commits:?}");
    bench.assert_restores(&stream, "restored");
}

#[test]
fn a_rule_that_ran_without_a_checkpoint_begins_one_with_snapshots() {
    for history_batches in [0, 100] {
        let bench = Bench::new();
        let stream = Stream { history_batches, ..bench.stream("late") };
        Stream { checkpoint: None, ..stream.clone() }.run_into(Fault::BeforeDelivery(9));
        stream.run_to_the_end();
        bench.assert_same(&stream, "with a checkpoint from the middle on");
        let commits = batches(&bench.store(), Folder::Commits);
        let listed = bench.store().list(Folder::Partition(PartitionId(0))).unwrap();
        let is_snapshot = |listed: &Listed| match listed.object {
            Object::Snapshot(_, batch) => Some(batch.0),
            _ => None,
        };
        let first = listed.iter().find_map(is_snapshot).expect("it begins with one");
        // The batch that was running beside the one that failed is finished first, and batches whose outputs wait are there, too.
        assert!(
            commits[0] <= first && (9..=11).contains(&commits[0]) && (9..=11).contains(&first),
            "{commits:?} {first}"
        );
        bench.assert_restores(&stream, "restored");
    }
}

#[test]
fn a_checkpoint_that_was_left_out_for_some_batches_begins_anew() {
    let bench = Bench::new();
    let stream = bench.stream("gap");
    stream.run_into(Fault::AfterDelivery(5));
    Stream { checkpoint: None, ..stream.clone() }.run_into(Fault::AfterDelivery(12));
    stream.run_to_the_end();
    bench.assert_same(&stream, "with a gap in its checkpoint");
    assert!(batches(&bench.store(), Folder::Commits)[0] > 10);
    bench.assert_restores(&stream, "restored");
}

#[test]
fn a_crash_at_any_batch_leaves_a_checkpoint_that_goes_on_to_the_same_objects() {
    let bench = Bench::new();
    let stream = bench.stream("crashing");
    for batch in [0, 1, 7, 8] {
        stream.run_into(Fault::BeforeDelivery(batch));
        stream.run_into(Fault::AfterDelivery(batch + 1));
    }
    stream.run_to_the_end();
    bench.assert_same(&stream, "after crashes");
    bench.assert_restores(&stream, "restored");
    let (straight, store) = bench.elsewhere("straight");
    straight.run_to_the_end();
    let deltas_of = |store: &CheckpointStore| {
        let objects = objects(store).into_iter();
        objects.filter(|(name, _)| name.ends_with(".delta")).collect::<Vec<_>>()
    };
    assert!(deltas_of(&bench.store()) == deltas_of(&store), "the deltas of a run that crashed are others");
}

#[test]
fn a_checkpoint_of_another_history_is_refused() {
    let bench = Bench::new();
    bench.stream("first").run_to_the_end();
    let other = tempfile::tempdir().expect("a folder can be made");
    let url = bench.folder().display().to_string();
    let run = |data: &Path, name: &str, flags: &[&str]| {
        let mut call = command::keyfold(["run", "--quiet", "--checkpoint", &url, "--input"]);
        call.arg(bench.work.path().join("input")).arg("--data").arg(data);
        call.arg("--output").arg(other.path().join(name)).args(flags);
        command::finish(call.arg(command::example("card-sessions")))
    };
    let before = bench.objects();
    // A new folder, and one that has run.
    run(&other.path().join("new"), "new-output", &[]).fails_with(&["keyfold restore", "--take-over", "another URL"]);
    assert!(!other.path().join("new").exists(), "something was made");
    let mut without = command::keyfold(["run", "--quiet", "--input"]);
    without.arg(bench.work.path().join("input")).arg("--data").arg(other.path().join("used"));
    without.arg("--output").arg(other.path().join("used-output")).arg(command::example("card-sessions"));
    command::finish(&mut without).ok();
    run(&other.path().join("used"), "used-output", &[]).fails_with(&["another history", "another URL"]);
    assert!(bench.objects() == before, "the checkpoint was changed");
}

#[test]
fn an_old_copy_of_a_data_folder_is_refused() {
    let bench = Bench::new();
    let stream = bench.stream("copied");
    stream.run_into(Fault::AfterDelivery(3));
    stream.save(&bench.work.path().join("old"));
    stream.run_to_the_end();
    let old = Stream { data: bench.work.path().join("old"), ..stream };
    let error = old.run(Fault::None).expect_err("others have gone on");
    assert!(format!("{error:#}").contains("has taken over"), "{error:#}");
}

fn run(work: &Path, name: &str, flags: &[&str]) -> Command {
    let mut call = command::keyfold(["run", "--quiet", "--batch-events", "500", "--input"]);
    call.arg(work.join("input")).arg("--data").arg(work.join(format!("{name}-data")));
    call.arg("--output").arg(work.join(format!("{name}-output"))).args(flags);
    call.arg("--checkpoint").arg(work.join(format!("{name}-checkpoint")));
    call.arg(command::example("card-sessions"));
    call
}

/// Another seed kills at other moments.
const SEED: u64 = 20_260_106;
const KILLS: u32 = 10;

#[test]
fn a_run_that_is_killed_while_it_uploads_leaves_the_objects_of_one_that_was_not() {
    println!("seed {SEED}");
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 60_000, 6);
    data::spoil(&work.path().join("input/events-000.jsonl"));
    command::finish(&mut run(work.path(), "undisturbed", &["--snapshot-batches", "100000"])).ok();
    let mut random = Random::new(SEED, 0);
    let flags = ["--snapshot-batches", "20", "--release", "after-checkpoint"];
    let output = work.path().join("killed-output");
    for _ in 0..KILLS {
        let wanted = folder::visible_files(&output).len() + random.between(0, 4) as usize;
        let mut process = Process::start(&mut run(work.path(), "killed", &flags));
        wait_until("it wrote more", || folder::visible_files(&output).len() >= wanted || !process.is_running());
        process.kill_after(Duration::from_millis(random.between(0, 10).into()));
    }
    command::finish(&mut run(work.path(), "killed", &flags)).ok();
    folder::assert_same_files(&output, &work.path().join("undisturbed-output"), "after all kills");
    let open = |name: &str| {
        let url = work.path().join(format!("{name}-checkpoint")).display().to_string();
        CheckpointStore::open(&url).expect("the folder is ours")
    };
    let (found, expected) = (objects(&open("killed")), objects(&open("undisturbed")));
    let is_delta = |name: &&String| name.ends_with(".delta");
    assert!(found.keys().filter(is_delta).count() > 30, "{:?}", found.keys());
    for name in found.keys().filter(is_delta) {
        assert!(expected.get(name) == found.get(name), "{name} has other bytes");
    }
    let partitions = |name| commits(&open(name)).into_iter().map(|(batch, commit)| (batch, commit.partitions));
    let expected: Vec<_> = partitions("undisturbed").collect();
    let found: Vec<_> = partitions("killed").collect();
    assert!(found.len() > 20 && expected.ends_with(&found), "other commits");
    let url = work.path().join("killed-checkpoint");
    command::finish(command::keyfold(["verify"]).arg(url)).ok();
}

#[test]
fn an_import_and_the_component_lie_in_the_checkpoint_before_the_plan_that_names_them() {
    let bench = Bench::new();
    let states = bench.work.path().join("states.jsonl");
    std::fs::write(&states, "{\"key\":\"nobody\",\"value\":{\"last_ms\":1,\"high\":0}}\n").expect("the folder is ours");
    let url = bench.folder().display().to_string();
    let mut call = command::keyfold(["run", "--quiet", "--checkpoint", &url, "--initial-state"]);
    call.arg(&states)
        .arg("--input")
        .arg(bench.work.path().join("input"))
        .arg("--data")
        .arg(bench.work.path().join("d"));
    call.arg("--output").arg(bench.work.path().join("o")).arg(command::example("card-sessions"));
    command::finish(&mut call).ok();
    let object = Object::Import("000000-initial.jsonl".to_owned());
    let bytes = bench.store().read(&object).expect("it can be read").expect("it is there");
    let mut file = Vec::new();
    keyfold::checkpoint::import::read(&bytes[..], &mut file).expect("it is whole");
    assert!(String::from_utf8_lossy(&file).contains("nobody"));
}

#[test]
fn another_url_begins_a_checkpoint_of_its_own() {
    let bench = Bench::new();
    let stream = bench.stream("moving");
    stream.run_into(Fault::AfterDelivery(6));
    let (elsewhere, store) = bench.elsewhere("second");
    let moved = Stream { checkpoint: elsewhere.checkpoint, ..stream };
    moved.run_to_the_end();
    bench.assert_same(&moved, "with a second checkpoint");
    assert!(batches(&store, Folder::Partition(PartitionId(0))).len() == 1 && batches(&store, Folder::Commits)[0] >= 6);
}
