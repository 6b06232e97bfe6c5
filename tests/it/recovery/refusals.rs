//! What must not be run on a data folder is refused, and the message says why.

use crate::support::process::{Process, wait_until};
use crate::support::{command, data};
use std::path::Path;
use std::process::Command;

fn run(work: &Path, rule: &str, settings: &[&str]) -> Command {
    let mut call = command::keyfold(["run", "--quiet", "--input"]);
    call.arg(work.join("input")).arg("--data").arg(work.join("data")).arg("--output").arg(work.join("output"));
    call.args(settings).arg(command::example(rule));
    call
}

#[test]
fn a_second_run_on_the_same_folder_is_refused_while_the_first_lives() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 1_000, 1);
    let first = Process::start(&mut run(work.path(), "card-sessions", &["--follow"]));
    wait_until("the first run wrote", || work.path().join("output/batch-0000000000.jsonl").exists());
    let second = command::finish(&mut run(work.path(), "card-sessions", &[]));
    second.fails_with(&["data", "is in use by another process", "stop that one first"]);
    first.kill();
    command::finish(&mut run(work.path(), "card-sessions", &[])).ok();
}

#[test]
fn another_key_number_of_partitions_time_or_rule_is_refused_by_name() {
    let work = tempfile::tempdir().expect("a folder can be made");
    data::card_sessions(&work.path().join("input"), 1_000, 1);
    command::finish(&mut run(work.path(), "card-sessions", &["--partitions", "2"])).ok();
    let refused: [(&str, &[&str], &str); 4] = [
        ("card-sessions", &["--key", "/device"], "the key is '/user_id' there and '/device' here"),
        ("card-sessions", &["--partitions", "3"], "the number of partitions is '2' there and '3' here"),
        ("card-sessions", &["--event-time", "/at"], "the event time is '/ts' there and '/at' here"),
        ("running-count", &[], "the rule is 'card-sessions' there and 'running-count' here"),
    ];
    for (rule, settings, difference) in refused {
        let refusal = command::finish(&mut run(work.path(), rule, settings));
        refusal.fails_with(&["cannot be used", difference, "another folder with --data"]);
    }
    let two = command::finish(&mut run(work.path(), "card-sessions", &["--key", "/device", "--partitions", "3"]));
    two.fails_with(&["the key is", "the number of partitions is"]);
    // What is not named is what the folder has.
    command::finish(&mut run(work.path(), "card-sessions", &[])).ok();
}
