//! The process is killed at moments that it did not choose.

use crate::support::card_sessions::{assert_same_rows, expected_rows, rows};
use crate::support::process::{Process, wait_until};
use crate::support::{command, data, folder};
use keyfold::r#gen::Random;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Another seed kills at other moments.
const SEED: u64 = 20_260_105;
const KILLS: u32 = 12;

fn run(work: &Path, name: &str, settings: &[&str]) -> Command {
    let mut call = command::keyfold(["run", "--quiet", "--batch-events", "500", "--input"]);
    call.arg(work.join("input")).arg("--data").arg(work.join(format!("{name}-data")));
    call.arg("--output").arg(work.join(format!("{name}-output"))).args(settings);
    call.arg(command::example("card-sessions"));
    call
}

/// Lets a run write up to four more files and some milliseconds pass, and kills it.
fn kill_at_a_random_moment(call: &mut Command, output: &Path, random: &mut Random) {
    let wanted = folder::visible_files(output).len() + random.between(0, 4) as usize;
    let further_ms = random.between(0, 10);
    let mut process = Process::start(call);
    wait_until("the run wrote more", || folder::visible_files(output).len() >= wanted || !process.is_running());
    let was_running = process.kill_after(Duration::from_millis(further_ms.into()));
    assert!(was_running, "the run ended before it could be killed: give it more events");
}

fn dead_letters(data: &Path) -> String {
    command::finish(command::keyfold(["dead-letters"]).arg(data)).ok().stdout
}

#[test]
fn a_run_that_is_killed_again_and_again_gives_the_bytes_of_one_that_was_not() {
    println!("seed {SEED}");
    let work = tempfile::tempdir().expect("a folder can be made");
    // 200 batches: more than all kills together let pass, on a fast disk too.
    data::card_sessions(&work.path().join("input"), 100_000, 1);
    data::spoil(&work.path().join("input/events-000.jsonl"));
    command::finish(&mut run(work.path(), "undisturbed", &[])).ok();
    let (expected, output) = (work.path().join("undisturbed-output"), work.path().join("killed-output"));
    let whole = folder::files(&expected);
    let mut random = Random::new(SEED, 0);
    for kill in 0..KILLS {
        kill_at_a_random_moment(&mut run(work.path(), "killed", &[]), &output, &mut random);
        for (name, bytes) in folder::visible_files(&output) {
            assert!(whole.get(&name) == Some(&bytes), "after kill {kill}, {name} is not as it must be");
        }
    }
    command::finish(&mut run(work.path(), "killed", &[])).ok();
    folder::assert_same_files(&output, &expected, "after all kills");
    let letters = dead_letters(&work.path().join("undisturbed-data"));
    assert!(letters.lines().count() > 30, "the spoiled lines are in the dead letters:\n{letters}");
    assert_eq!(dead_letters(&work.path().join("killed-data")), letters);
}

#[test]
fn a_run_that_is_killed_while_it_starts_leaves_a_folder_that_can_be_used() {
    println!("seed {SEED}");
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 2_000, 2);
    command::finish(&mut run(work.path(), "undisturbed", &["--partitions", "16"])).ok();
    let mut random = Random::new(SEED, 1);
    for number in 0..24 {
        let name = format!("killed-{number}");
        let call = || run(work.path(), &name, &["--partitions", "16"]);
        let mut process = Process::start(&mut call());
        let folder = work.path().join(format!("{name}-data"));
        wait_until("the data folder is there", || folder.exists() || !process.is_running());
        // The first milliseconds, in which the first file is made, are the most delicate ones.
        let range_ms = if number % 2 == 0 { 8 } else { 60 };
        process.kill_after(Duration::from_millis(random.between(0, range_ms).into()));
        command::finish(&mut call()).ok();
        let (found, expected) = (format!("{name}-output"), "undisturbed-output");
        folder::assert_same_files(&work.path().join(found), &work.path().join(expected), "after a kill at the start");
    }
}

#[test]
fn a_run_that_follows_and_is_killed_again_and_again_gives_the_rows_of_the_reference() {
    println!("seed {SEED}");
    let work = tempfile::tempdir().expect("a folder can be made");
    // 80 batches in each file: a run that has caught up with its file would wait, and write no more.
    let texts = data::card_sessions(&work.path().join("made"), 120_000, 3);
    let expected = expected_rows(texts.iter().map(String::as_str));
    let (input, output) = (work.path().join("input"), work.path().join("killed-output"));
    fs::create_dir(&input).expect("the folder is new");
    let mut random = Random::new(SEED, 2);
    for name in folder::files(&work.path().join("made")).into_keys() {
        fs::rename(work.path().join("made").join(&name), input.join(&name)).expect("both are in one folder");
        for _ in 0..3 {
            kill_at_a_random_moment(&mut run(work.path(), "killed", &["--follow"]), &output, &mut random);
        }
    }
    let process = Process::start(&mut run(work.path(), "killed", &["--follow"]));
    let count = expected.count() as usize;
    wait_until("all rows are there", || folder::lines(&output).len() >= count);
    process.terminate().ok();
    assert_same_rows(&rows(folder::lines(&output).iter().map(String::as_str)), &expected);
}
