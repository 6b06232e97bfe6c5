//! Restoring that is killed: what it leaves is no data folder, and the next attempt succeeds.

use super::trial::Trial;
use crate::support::command;
use crate::support::host::Stream;
use crate::support::process::Process;
use keyfold::r#gen::Random;
use std::time::Duration;

const SEED: u64 = 20_260_107;
const KILLS: u32 = 16;

#[test]
fn restoring_that_is_killed_leaves_no_data_folder_and_the_next_attempt_succeeds() {
    println!("seed {SEED}");
    let trial = Trial::new();
    trial.write(&trial.local("checkpoint"));
    let (data, mut random) = (trial.work.path().join("killed-data"), Random::new(SEED, 0));
    let call = || {
        let mut call = command::keyfold(["restore", "--json", "--data"]);
        call.arg(&data).arg(trial.work.path().join("checkpoint"));
        call
    };
    let mut killed = 0;
    for _ in 0..KILLS {
        let process = Process::start(&mut call());
        if !process.kill_after(Duration::from_millis(random.between(0, 60).into())) {
            // It was done before: the folder is whole, and is taken away for the next attempt.
            std::fs::remove_dir_all(&data).expect("it is there");
            continue;
        }
        killed += 1;
        if data.exists() {
            // Killed after the folder was put in its place.
            assert!(data.join("plan.db").exists());
            std::fs::remove_dir_all(&data).expect("it is there");
        }
    }
    assert!(killed > 0, "every attempt was done before it could be killed");
    let finished = command::finish(&mut call()).ok();
    assert!(!trial.work.path().join(".killed-data.unfinished").exists(), "the leavings are still there");
    let restored = &finished.json_lines()[0];
    let stream = Stream { data, output: trial.work.path().join("killed-output"), ..trial.undisturbed.clone() };
    let delivered = restored["delivered"].as_u64().map(keyfold::event::BatchId);
    trial.goes_on(&stream, delivered, "after kills");
}
