//! What a hostile tenant does to a quiet one: decisions of the quiet one, alone and beside endless loops, rules that take all the
//! memory that they get, and floods of events.

use crate::load::{Steady, caught_up, manifest, preload, user};
use crate::server::{Client, Server, guest};
use anyhow::Result;
use keyfold_bench::latencies::{head, line, percentile};
use keyfold_bench::rules::example;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Decisions of the quiet tenant a second.
const RATE: u64 = 100;
/// For how long, each time.
const SECONDS: u64 = 20;
/// The quiet tenant's users.
const USERS: u64 = 1_000;
/// Threads that flood.
const FLOODS: usize = 4;
/// The rules of the hostile tenant.
const HOSTILE: [&str; 4] = ["endless-loop", "memory-growth", "stack-overflow", "huge-output"];

pub fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(&folder.path().join("data"), None)?;
    let quiet = server.tenant("quiet", json!({}))?;
    quiet.put("streams/payments", &json!({}))?;
    quiet.rule("count", &manifest("payments"), &example("running-count"))?;
    preload(&quiet, "payments", USERS)?;
    caught_up(&quiet, "count")?;
    let requests = RATE * SECONDS;
    let steady = |round: u64| {
        let counted = 1 + round * requests / USERS;
        Steady { client: &quiet, rule: "count", rate: RATE, requests, users: USERS, counted }.run()
    };
    // What was preloaded is still on its way to the disk: that is nobody's doing.
    steady(0)?;
    let alone = steady(1)?;

    let hostile = server.tenant("hostile", json!({}))?;
    let make = |name: &str| -> Result<()> {
        hostile.put(&format!("streams/{name}"), &json!({}))?;
        let mut manifest = manifest(name);
        // It is to go on failing.
        manifest["errors"] = json!({"quarantine_batches": 0, "rollback_batches": 0});
        hostile.rule(name, &manifest, &guest(name)?)
    };
    HOSTILE.iter().try_for_each(|name| make(name))?;
    let stop = AtomicBool::new(false);
    let flooded = AtomicU64::new(0);
    let beside = std::thread::scope(|scope| {
        for _ in 0..FLOODS {
            scope.spawn(|| flood(&hostile, &stop, &flooded));
        }
        std::thread::sleep(Duration::from_secs(3));
        let beside = steady(2);
        stop.store(true, Ordering::Relaxed);
        beside
    })?;
    println!("{}", head("milliseconds of a quiet tenant's decision"));
    println!("{}", line("alone", &alone));
    println!("{}", line("beside a hostile tenant", &beside));
    let factor = percentile(&beside, 0.99).as_secs_f64() / percentile(&alone, 0.99).as_secs_f64();
    println!("p99 beside / alone: {factor:.2}");
    println!("answers: {} of {} right, alone and beside", alone.len() + beside.len(), 2 * requests);
    println!("events that the hostile tenant got in meanwhile: {}", flooded.load(Ordering::Relaxed));
    Ok(())
}

/// Sends events that make the rules misbehave, until it is told to stop. Refusals are what a flood is to meet.
fn flood(client: &Client, stop: &AtomicBool, flooded: &AtomicU64) {
    let line = |number: u64| format!("{}\n", json!({"user_id": format!("bad-{}", user(number))}));
    let body: String = (0..1000).map(line).collect();
    while !stop.load(Ordering::Relaxed) {
        for name in HOSTILE {
            let path = format!("streams/{name}/events");
            if client.send(&path, "application/x-ndjson", body.clone().into()).is_ok_and(|a| a.status().is_success()) {
                flooded.fetch_add(1000, Ordering::Relaxed);
            }
        }
    }
}
