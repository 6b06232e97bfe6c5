//! Data folders that earlier versions left, stopped in the middle of a batch: this version goes on with them.
//!
//! Each lies in `tests/upgrade`, compressed, with its input and what a run to the end gave. A folder stays as it is once a release
//! has written its format; `cargo xtask upgrade-folder` makes the one of a new format.

use crate::support::{command, few, folder};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the folder that is to be made.
const MAKE: &str = "KEYFOLD_MAKE_UPGRADE_FOLDER";
const STATES: &str = "states.jsonl";
const LETTERS: &str = "dead-letters.txt";

fn root() -> PathBuf {
    command::root().join("tests/upgrade")
}

/// The component in a data folder, which planned the batches.
fn component(data: &Path) -> PathBuf {
    let name = folder::files(&data.join("components")).into_keys().next().expect("the component is kept");
    data.join("components").join(name)
}

fn run(work: &Path, component: &Path) -> Command {
    let mut call = command::keyfold(["run", "--quiet", "--threads", "1", "--partitions", "2", "--batch-events", "9"]);
    call.args(["--key", "/user_id", "--event-time", "/ts", "--watermark-delay", "10s"]).current_dir(work);
    call.args(["--input", "input", "--data", "data", "--output", "output"]).arg(component);
    call
}

/// Writes what can be seen of a folder beside it.
fn look(work: &Path) {
    for (args, name) in [(["state", "ls", "data"].as_slice(), STATES), (&["dead-letters", "data"], LETTERS)] {
        let said = command::finish(command::keyfold(args).current_dir(work)).ok().stdout;
        fs::write(work.join(name), said).expect("the disk has room");
    }
}

/// Copies the files of a folder, each compressed or decompressed.
fn convert(from: &Path, to: &Path, convert: impl Fn(&str, &[u8]) -> Option<(String, Vec<u8>)>) {
    fs::create_dir_all(to).expect("a folder can be made");
    for (name, bytes) in folder::files(from) {
        if let Some((name, bytes)) = convert(&name, &bytes) {
            fs::write(to.join(name), bytes).expect("the disk has room");
        }
    }
}

fn compressed(name: &str, bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    const LEVEL: i32 = 19;
    // Neither outlives the process that made it.
    let is_kept = name != "lock" && !name.ends_with("-shm");
    is_kept.then(|| (format!("{name}.zst"), zstd::encode_all(bytes, LEVEL).expect("memory can be written")))
}

fn decompressed(name: &str, bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let name = name.strip_suffix(".zst").expect("it was compressed").to_owned();
    Some((name, zstd::decode_all(bytes).expect("it was compressed")))
}

#[test]
fn folders_of_earlier_versions_go_on_and_end_with_the_same_bytes() {
    let mut versions = 0;
    for entry in fs::read_dir(root()).expect("there is a folder of folders") {
        let kept = entry.expect("it can be read").path();
        if !kept.is_dir() {
            continue;
        }
        versions += 1;
        let work = folder::fast();
        folder::copy(&kept.join("input"), &work.path().join("input"));
        for part in ["data", "data/components", "output"] {
            convert(&kept.join(part), &work.path().join(part), decompressed);
        }
        command::finish(&mut run(work.path(), &component(&work.path().join("data")))).ok();
        look(work.path());
        let why = kept.display().to_string();
        folder::assert_same_files(&work.path().join("output"), &kept.join("expected"), &why);
        for name in [STATES, LETTERS] {
            let read = |folder: &Path| fs::read_to_string(folder.join(name)).expect("it is there");
            assert_eq!(read(work.path()), read(&kept), "{name} of {why}");
        }
    }
    assert!(versions > 0, "there is no folder: make one with `cargo xtask upgrade-folder`");
}

/// Does nothing unless it is asked for a folder.
#[test]
fn a_folder_is_made_when_it_is_asked_for() {
    let Ok(name) = std::env::var(MAKE) else { return };
    let kept = root().join(&name);
    assert!(!kept.exists(), "{} is there: what a release has left is not made again", kept.display());
    let work = folder::fast();
    let work = work.path();
    few::write(&work.join("input"), &few::payments(44), 2);
    let rule = command::example("card-sessions").join("rule.wasm");
    // In the fourth batch, of which one partition has committed and the other has not.
    let stopped = command::finish(run(work, &rule).env("KEYFOLD_FAULT", "commit-end:8=abort"));
    assert_eq!(stopped.code, None, "{stopped:?}");
    folder::copy(&work.join("input"), &kept.join("input"));
    for part in ["data", "data/components", "output"] {
        convert(&work.join(part), &kept.join(part), compressed);
    }
    command::finish(&mut run(work, &rule)).ok();
    look(work);
    folder::copy(&work.join("output"), &kept.join("expected"));
    for name in [STATES, LETTERS] {
        fs::copy(work.join(name), kept.join(name)).expect("the disk has room");
    }
}
