//! A run that stands still for a while, as a machine does that is suspended.

use crate::support::process::{Process, wait_until};
use crate::support::{command, few, folder};
use std::process::Command;

fn run(work: &std::path::Path, name: &str) -> Command {
    let mut call = command::keyfold(["run", "--quiet", "--batch-events", "9", "--partitions", "2", "--input"]);
    call.arg(work.join("input")).arg("--data").arg(work.join(format!("{name}-data")));
    call.arg("--output").arg(work.join(format!("{name}-output"))).arg(command::example("card-sessions"));
    call
}

/// Whether a process stands still, as the system says.
fn is_stopped(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
}

#[test]
fn a_run_that_is_paused_keeps_its_folder_and_goes_on_as_if_nothing_had_been() {
    let work = folder::fast();
    few::write(&work.path().join("input"), &few::payments(40), 1);
    command::finish(&mut run(work.path(), "undisturbed")).ok();
    for point in ["plan-written:2", "commit-end:2", "committed:3", "output-written:2"] {
        let name = point.replace(':', "-");
        let mut call = run(work.path(), &name);
        let paused = Process::start(call.env("KEYFOLD_FAULT", format!("{point}=stop")));
        wait_until("the run stands still", || is_stopped(paused.id()));
        // Another one finds the folder in use however long the pause is.
        command::finish(&mut run(work.path(), &name)).fails_with(&["is in use by another process"]);
        paused.signal("-CONT");
        paused.finish().ok();
        let [found, expected] = [&name, "undisturbed"].map(|name| work.path().join(format!("{name}-output")));
        folder::assert_same_files(&found, &expected, point);
    }
}
