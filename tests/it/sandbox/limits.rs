//! Rules that want too much: of time, of memory, of the host's disk and log.

use super::{assert_letters, assert_says, counts, fails_alone, nothing_fails};
use crate::support::rules::Setup;
use keyfold::limits::Limits;

const BAD: [&str; 2] = ["bad-1", "bad-2"];
const MIB: u64 = 1024 * 1024;
/// Enough for the largest of what these guests make.
const FUEL_FOR_MUCH_WORK: u64 = 2_000_000_000;

/// A guest with other limits than the usual ones.
fn limited(guest: Setup, change: impl FnOnce(&mut Limits)) -> Setup {
    let mut limits = Limits::default();
    change(&mut limits);
    Setup { limits, ..guest }
}

#[test]
fn an_endless_loop_fails_its_group_when_the_fuel_is_used_up() {
    let (fuel_per_group, fuel_per_event) = (3_000_000, 500_000);
    let guest = limited(Setup::guest("endless-loop"), |limits| {
        *limits = Limits { fuel_per_group, fuel_per_event, ..Limits::default() };
    });
    let letters = fails_alone(&mut guest.open(), BAD, "out-of-fuel");
    // The first letter is for two events, the second for one: the fuel is that of the group, whoever its neighbours are.
    let expected = [2, 1, 1].map(|events| fuel_per_group + events * fuel_per_event);
    assert_eq!(letters.iter().map(|letter| letter.fuel.unwrap_or(0)).collect::<Vec<_>>(), expected);
    assert_says(&letters[0].message, &["4000000 units", "fuel-per-group", "fuel-per-event"]);
}

/// The fuel is far beyond what the deadline allows, as it would be on a machine that is overloaded.
#[test]
fn a_call_over_its_deadline_fails_the_group_that_it_was_stopped_in() {
    let guest = limited(Setup::guest("endless-loop"), |limits| {
        limits.fuel_per_group = u64::MAX / 2;
        limits.call_deadline_ms = 50;
    });
    let mut trial = guest.open();
    let batch = trial.run_keys(&["a", "bad", "b"]);
    assert_eq!(batch.outputs, counts(&[("a", 1), ("b", 1)]));
    assert_letters(&batch.letters, &trial, "deadline", &[("bad", &[2])]);
    assert_says(&batch.letters[0].message, &["50 ms", "call-deadline-ms"]);
}

#[test]
fn slow_groups_do_not_fail_however_many_a_batch_has() {
    // One group takes some tens of millions of units; thirty together take far more than any one may.
    let guest = limited(Setup::guest("slow"), |limits| limits.call_deadline_ms = 60_000);
    let mut trial = guest.open();
    nothing_fails(&mut trial, "slow");
    let keys: Vec<String> = (0..30).map(|number| format!("slow-{number}")).collect();
    let batch = trial.run_keys(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((batch.outputs.len(), batch.letters.len()), (30, 0), "{:#?}", batch.letters.first());
    let metrics = batch.progress.custom_metrics;
    assert_eq!(metrics.num_calls, 1);
    let limits = Limits::default();
    assert!(metrics.fuel > limits.fuel(30), "{} is not more than {}", metrics.fuel, limits.fuel(30));
}

#[test]
fn memory_without_end_fails_its_group_at_the_limit() {
    let bytes_max = 16 * MIB;
    let mut trial = limited(Setup::guest("memory-growth"), |limits| limits.memory_bytes_max = bytes_max).open();
    let letters = fails_alone(&mut trial, BAD, "memory-limit");
    assert_says(&letters[0].message, &["the limit is 16 MiB", "memory-bytes-max"]);
    assert!(letters.iter().all(|letter| letter.fuel.is_some_and(|fuel| fuel > 0)), "{letters:#?}");
    let metrics = trial.run_keys(&["bad", "a"]).progress.custom_metrics;
    assert!(metrics.instance_bytes > bytes_max / 2, "only {} bytes were taken", metrics.instance_bytes);
    assert!(metrics.instance_bytes <= bytes_max, "{} bytes were taken", metrics.instance_bytes);
}

#[test]
fn memory_without_end_fails_at_the_limit_that_users_get() {
    // With the usual fuel it would not come that far.
    let guest = limited(Setup::guest("memory-growth"), |limits| limits.fuel_per_group = FUEL_FOR_MUCH_WORK);
    let mut trial = guest.open();
    let batch = trial.run_keys(&["a", "bad", "b"]);
    assert_eq!(batch.outputs, counts(&[("a", 1), ("b", 1)]));
    assert_letters(&batch.letters, &trial, "memory-limit", &[("bad", &[2])]);
    let metrics = batch.progress.custom_metrics;
    assert!(
        metrics.instance_bytes <= Limits::default().memory_bytes_max,
        "{} bytes were taken",
        metrics.instance_bytes
    );
}

#[test]
fn a_huge_output_fails_its_group_alone() {
    let guest = limited(Setup::guest("huge-output"), |limits| limits.fuel_per_group = FUEL_FOR_MUCH_WORK);
    let letters = fails_alone(&mut guest.open(), BAD, "output-limit");
    assert_says(&letters[0].message, &["bytes of outputs", "the limit is 4194304", "output-bytes-max"]);
}

#[test]
fn too_many_outputs_fail_their_group_alone() {
    let guest = limited(Setup::guest("many-outputs"), |limits| {
        limits.fuel_per_group = FUEL_FOR_MUCH_WORK;
        limits.output_bytes_max = 64 * MIB;
    });
    let letters = fails_alone(&mut guest.open(), BAD, "output-limit");
    assert_says(&letters[0].message, &["2000001 outputs", "the limit is 10000", "outputs-max"]);
}

#[test]
fn a_huge_state_fails_its_group_alone() {
    let guest = limited(Setup::guest("huge-state"), |limits| limits.fuel_per_group = FUEL_FOR_MUCH_WORK);
    let letters = fails_alone(&mut guest.open(), BAD, "state-limit");
    assert_says(&letters[0].message, &["the state has 8388", "the limit is 1048576", "state-bytes-max"]);
}

#[test]
fn log_lines_without_end_fail_their_group_alone() {
    let guest = limited(Setup::guest("log-flood"), |limits| limits.log_lines_max = 20);
    let letters = fails_alone(&mut guest.open(), BAD, "log-limit");
    assert_says(&letters[0].message, &["more than 20 log lines", "log-lines-max"]);
    assert!(letters.iter().all(|letter| letter.fuel.is_some_and(|fuel| fuel > 0)), "{letters:#?}");
}

#[test]
fn a_long_log_line_fails_nothing() {
    let guest = limited(Setup::guest("log-long-line"), |limits| limits.log_bytes_max = 10_000);
    nothing_fails(&mut guest.open(), "bad");
}

#[test]
fn a_timeout_at_the_end_of_time_fails_its_group_alone() {
    let letters =
        fails_alone(&mut Setup::guest("bad-timeout").open(), ["bad-processing", "bad-event"], "invalid-timeout");
    assert_says(&letters[0].message, &["9223372036854775807", "processing time", "after the year 9999"]);
    assert_says(&letters[1].message, &["9223372036854775807", "event time", "after the year 9999"]);
}
