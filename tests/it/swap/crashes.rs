//! The process is ended at each moment of a swap, and the next one goes on: what can be seen in the end is the same.
//!
//! No command swaps without a server, so the process is this program: the test that plays the host does nothing unless it is told
//! where.

use super::running::{Interrupted, ask_for, events, stream};
use super::second;
use crate::support::host::{Fault, Stream};
use crate::support::rules::loader;
use crate::support::{few, folder};
use keyfold::host::{Control, StateChoice, Trigger};
use keyfold::limits::Limits;
use keyfold::sink::FilesSink;
use keyfold::state::PlanLog;
use keyfold::wasm::component::digest_of;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Names the folder in which the child plays, the choice, and the batch before whose read it is asked for.
const SCENE: &str = "KEYFOLD_SWAP_SCENE";
const CHOICE: &str = "KEYFOLD_SWAP_CHOICE";
const BATCH: &str = "KEYFOLD_SWAP_BATCH";
/// More keys than one batch sweeps.
const KEYS: usize = 5_000;
/// The points around an activation, and in the first batches with it, each with the occurrences that are tried: the third lies in the
/// sweep. At other points a swap is as any other batch, and the matrix has those.
const MOMENTS: [(&str, &[usize]); 12] = [
    ("activation-begin", &[1]),
    ("component-written", &[1]),
    ("component-placed", &[1]),
    ("activation-written", &[1]),
    ("activation-told", &[1]),
    ("plan-begin", &[1]),
    ("plan-written", &[1, 3]),
    ("in-call", &[1]),
    ("commit-begin", &[1]),
    ("commit-end", &[2, 5]),
    ("committed", &[1, 3]),
    ("partition-done", &[1]),
];

fn choice_of(name: &str) -> StateChoice {
    serde_json::from_value(name.into()).expect("the parent knows the choices")
}

/// What runs in a scene: a partition for each thread, and few batches.
fn of_scene(work: &Path) -> Stream {
    Stream { batch_events: 2_500, partitions: 2, ..stream(work) }
}

/// Input of two batches, which the first version reads when there are keys before the swap, and of four more.
fn begin(work: &Path, has_keys: bool) {
    few::write(&work.join("input"), &events(0, KEYS, KEYS), 1);
    if has_keys {
        of_scene(work).run(Fault::None).unwrap();
    }
    fs::write(work.join("input/more.jsonl"), events(KEYS, 2 * KEYS, KEYS + 1_000).join("\n") + "\n").unwrap();
}

/// What the service does at each start: it asks for what is wanted unless the folder runs it already. Before a crash and after it, the
/// same batches are read first.
#[test]
fn a_host_that_swaps_plays_in_the_scene_that_it_is_told() {
    let told = |name| std::env::var(name).ok();
    let (Some(work), Some(choice), Some(batch)) = (told(SCENE), told(CHOICE), told(BATCH)) else { return };
    let mut stream = of_scene(Path::new(&work));
    let planned = PlanLog::running(&stream.data).unwrap();
    let is_known = planned.is_some_and(|planned| planned.digest == digest_of(&second()));
    if is_known {
        stream.component = second();
    }
    let (control, loader) = (Arc::<Control>::default(), Arc::new(loader(&Limits::default())));
    let sink = Box::new(FilesSink::open(&stream.output).unwrap());
    let mut host = stream.open_controlled(sink, Arc::clone(&control), &loader).unwrap();
    let component = Arc::new(loader.load(&second()).unwrap());
    let asking = Mutex::new(None);
    let act = || *asking.lock().unwrap() = Some(ask_for(&control, component, choice_of(&choice)));
    let reads = batch.parse::<u64>().unwrap().checked_sub(host.next_batch().0);
    let act = match reads {
        _ if is_known => None,
        Some(_) => Some(act),
        None => {
            act();
            None
        }
    };
    let reads_left = reads.unwrap_or_default() as usize;
    let mut source = Interrupted { files: stream.source().unwrap(), reads_left, act, fails: false };
    host.run(&mut source, Trigger::AvailableNow, &AtomicBool::new(false), &mut crate::support::host::Nobody).unwrap();
    drop(source);
    if let Some(asking) = asking.into_inner().unwrap() {
        asking.join().unwrap().unwrap();
    }
}

/// Plays in a child, which may be ended. Returns what it said, and whether it came to its end.
fn play(work: &Path, choice: &str, batch: u64, fault: &str) -> (String, bool) {
    let name = "swap::crashes::a_host_that_swaps_plays_in_the_scene_that_it_is_told";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]);
    command.env(SCENE, work).env(CHOICE, choice).env(BATCH, batch.to_string()).env("KEYFOLD_FAULT", fault);
    let output = command.output().unwrap();
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.success())
}

#[test]
fn a_crash_at_any_point_of_a_swap_between_two_runs_changes_nothing_that_anybody_can_see() {
    crash_everywhere(1);
}

#[test]
fn a_crash_at_any_point_of_a_swap_while_a_batch_runs_changes_nothing_that_anybody_can_see() {
    crash_everywhere(3);
}

#[test]
fn a_crash_at_any_point_of_a_swap_while_the_first_batch_runs_changes_nothing_that_anybody_can_see() {
    crash_everywhere(0);
}

/// The swap is asked for before this batch is read, or before the run when it was read before.
fn crash_everywhere(batch: u64) {
    let work = folder::fast();
    begin(work.path(), batch > 0);
    for choice in ["migrate", "fresh", "drain"] {
        let undisturbed = folder::fast();
        folder::copy(work.path(), undisturbed.path());
        let (met, ended) = play(undisturbed.path(), choice, batch, "trace");
        assert!(ended, "{met}");
        let expected = of_scene(undisturbed.path());
        let schemas: BTreeSet<u64> = expected.states().iter().filter_map(|row| row["schema"].as_u64()).collect();
        assert_eq!(schemas.len(), if choice == "drain" { 2 } else { 1 }, "{choice}: {schemas:?}");
        let times = |point: &str| met.lines().filter(|line| *line == format!("fault point {point}")).count();
        for point in ["activation-begin", "activation-written", "activation-told"] {
            assert_eq!(times(point), 1, "{point}");
        }
        let mut crashes = 0;
        for (point, occurrences) in MOMENTS {
            for &nth in occurrences {
                assert!(times(point) >= nth, "{point}:{nth} is never met, and so never tried");
                let why = format!("{choice}, after a crash at {point}:{nth}");
                let place = folder::fast();
                folder::copy(work.path(), place.path());
                let (said, ended) = play(place.path(), choice, batch, &format!("{point}:{nth}=abort"));
                assert!(!ended, "{why}: it was not met\n{said}");
                let (said, ended) = play(place.path(), choice, batch, "");
                assert!(ended, "{why}\n{said}");
                let found = of_scene(place.path());
                folder::assert_same_files(&found.output, &expected.output, &why);
                assert_eq!(found.states(), expected.states(), "{why}");
                crashes += 1;
            }
        }
        println!("{choice}: {crashes} crashes");
    }
}
