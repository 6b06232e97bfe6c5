//! `keyfold backup`: copies of a data folder, of which each goes on by itself.

use crate::support::process::{Process, wait_until};
use crate::support::{command, data, folder};
use std::fs;
use std::path::Path;
use std::process::Command;

const BACKUPS: usize = 4;

fn run(work: &Path, data: &str, output: &str) -> Command {
    let mut call = command::keyfold(["run", "--quiet", "--batch-events", "500", "--input"]);
    call.arg(work.join("input")).arg("--data").arg(work.join(data)).arg("--output").arg(work.join(output));
    call.arg(command::example("card-sessions"));
    call
}

/// Copies the files that are whole: one that the host is writing is gone a moment later.
fn copy_outputs(from: &Path, to: &Path) {
    fs::create_dir(to).expect("the folder is new");
    for (name, bytes) in folder::visible_files(from) {
        fs::write(to.join(name), bytes).expect("the disk has room");
    }
}

#[test]
fn backups_of_a_host_that_runs_and_is_killed_go_on_with_the_same_outputs() {
    let work = tempfile::tempdir().expect("a folder can be made");
    let work = work.path();
    data::card_sessions(&work.join("input"), 60_000, 8);
    command::finish(&mut run(work, "undisturbed-data", "undisturbed-output")).ok();
    let output = work.join("output");
    let mut host = Process::start(&mut run(work, "data", "output"));
    for number in 0..BACKUPS {
        let wanted = folder::visible_files(&output).len() + 5;
        wait_until("the run wrote more", || folder::visible_files(&output).len() >= wanted);
        let copy = work.join(format!("copy-{number}"));
        let copied = command::finish(command::keyfold(["backup", "--json"]).arg(work.join("data")).arg(&copy)).ok();
        let committed = copied.json_lines()[0]["committed"].as_array().map(Vec::len);
        assert_eq!(committed, Some(4), "{copied:?}");
        copy_outputs(&output, &work.join(format!("output-{number}")));
    }
    assert!(host.is_running(), "the run ended before its last backup: give it more events");
    host.kill();
    // Of a folder that nobody runs, just as the kill left it.
    command::finish(command::keyfold(["backup"]).arg(work.join("data")).arg(work.join(format!("copy-{BACKUPS}")))).ok();
    copy_outputs(&output, &work.join(format!("output-{BACKUPS}")));
    for number in 0..=BACKUPS {
        let (data, output) = (format!("copy-{number}"), format!("output-{number}"));
        command::finish(&mut run(work, &data, &output)).ok();
        folder::assert_same_files(
            &work.join(&output),
            &work.join("undisturbed-output"),
            &format!("from backup {number}"),
        );
        let states = |data: &str| command::finish(command::keyfold(["state", "ls"]).arg(work.join(data))).ok().stdout;
        assert_eq!(states(&data), states("undisturbed-data"), "from backup {number}");
    }
}

#[test]
fn a_backup_is_refused_where_something_is_and_of_what_is_no_data_folder() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 1_000, 1);
    command::finish(&mut run(work.path(), "data", "output")).ok();
    let data = work.path().join("data");
    command::finish(command::keyfold(["backup"]).arg(&data).arg(work.path().join("output"))).fails_with(&["not empty"]);
    let none =
        command::finish(command::keyfold(["backup"]).arg(work.path().join("input")).arg(work.path().join("copy")));
    none.fails_with(&["is not the data folder of a rule"]);
    assert!(!work.path().join("copy").exists());
}
