//! How long a decision takes: an event comes in, is synced, is put through the rule, and the answer is committed.

use crate::load::{Steady, caught_up, manifest, preload};
use crate::server::Server;
use anyhow::Result;
use keyfold_bench::latencies::{head, line, syncs};
use keyfold_bench::rules::example;
use serde_json::json;

/// Users with state.
const USERS: u64 = 100_000;
/// Decisions a second.
const RATE: u64 = 500;
/// For how long.
const SECONDS: u64 = 30;
/// Syncs that are timed.
const SYNCS: usize = 500;

pub fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(&folder.path().join("data"), None)?;
    let client = server.tenant("bank", json!({"requests_per_second": 100_000, "events_per_second": 1_000_000}))?;
    client.put("streams/payments", &json!({}))?;
    client.rule("count", &manifest("payments"), &example("running-count"))?;
    preload(&client, "payments", USERS)?;
    caught_up(&client, "count")?;
    let before = syncs(folder.path(), SYNCS)?;
    let steady =
        Steady { client: &client, rule: "count", rate: RATE, requests: RATE * SECONDS, users: USERS, counted: 1 };
    let latencies = steady.run()?;
    println!("{}", head("milliseconds"));
    println!("{}", line(&format!("decision, {RATE}/s, {USERS} keys"), &latencies));
    println!("{}", line("4 KiB, fdatasync, before", &before));
    println!("{}", line("4 KiB, fdatasync, after", &syncs(folder.path(), SYNCS)?));
    Ok(())
}
