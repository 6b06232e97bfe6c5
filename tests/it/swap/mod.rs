//! Another version of a rule takes over while the rule runs, and what becomes of the states that the version before has written.

mod crashes;
mod drain;
mod fresh;
mod keep;
mod migrate;
mod overlapping;
mod running;
mod sweep;

use crate::support::rules::{Batch, Setup, Trial, event, guest};
use keyfold::host::StateChoice;

/// No events: a batch for timeouts and the sweep alone.
const NOTHING: [&str; 0] = [];

/// The first version: counts, writes schema 1, and forgets a key ten seconds after its newest event.
fn first() -> Trial {
    Setup::guest("event-time-timeout").open()
}

/// The second version: counts on, writes schema 2, and can rewrite schema 1.
fn second() -> Vec<u8> {
    guest("migrating")
}

/// An output of the first version.
fn counted(key: &str, count: u64) -> String {
    format!(r#"{{"key":"{key}","count":{count}}}"#)
}

/// An output of the second version.
fn counted_by_second(key: &str, count: u64) -> String {
    format!(r#"{{"key":"{key}","count":{count},"schema":2}}"#)
}

/// Why an activation was refused.
fn refused(trial: &mut Trial, rule: &[u8], state: StateChoice) -> String {
    format!("{:#}", trial.activate(rule, state).expect_err("it is refused"))
}

/// So many events of each key in one batch.
fn run_many(trial: &mut Trial, keys: &[(&str, usize)], at_ms: i64) -> Batch {
    let lines = keys.iter().flat_map(|(key, count)| vec![event(key, at_ms); *count]);
    trial.run(&lines.collect::<Vec<String>>())
}

/// The schema of each key's row, 0 for a row without state.
fn schemas(trial: &Trial) -> Vec<(String, u64)> {
    let schema = |row: &serde_json::Value| row["schema"].as_u64().unwrap_or(0);
    trial.rows().iter().map(|(key, row)| (key.clone(), schema(row))).collect()
}
