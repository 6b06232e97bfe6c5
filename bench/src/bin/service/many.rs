//! A thousand rules of fifty tenants in one server: how long it takes to start, and what they take while nothing comes.

use crate::load::{caught_up, manifest, preload};
use crate::server::Server;
use anyhow::Result;
use keyfold_bench::process::{cpu, memory_mb, threads};
use keyfold_bench::rules::example;
use serde_json::json;
use std::time::{Duration, Instant};

/// Tenants, each with a stream.
const TENANTS: usize = 50;
/// Rules over the stream of each.
const RULES: usize = 20;
/// Keys of each rule.
const KEYS: u64 = 100;
/// How long the idle server is watched.
const IDLE: Duration = Duration::from_secs(20);

pub fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let server = Server::start(&data, None)?;
    let begin = Instant::now();
    let mut tokens = Vec::new();
    for tenant in 0..TENANTS {
        let client = server.tenant(&format!("tenant-{tenant}"), json!({}))?;
        client.put("streams/events", &json!({}))?;
        for rule in 0..RULES {
            client.rule(&format!("rule-{rule}"), &manifest("events"), &example("running-count"))?;
        }
        tokens.push(client);
    }
    println!("{} rules made in {:.1} s", TENANTS * RULES, begin.elapsed().as_secs_f64());
    let begin = Instant::now();
    for client in &tokens {
        preload(client, "events", KEYS)?;
    }
    for client in &tokens {
        for rule in 0..RULES {
            caught_up(client, &format!("rule-{rule}"))?;
        }
    }
    println!("{KEYS} events for each read by all in {:.1} s", begin.elapsed().as_secs_f64());
    println!("memory with all of them open or parked: {} MB", memory_mb(server.pid())?);
    let platform = server.platform.clone();
    println!("stopped in order in {:.1} s", server.stop()?.as_secs_f64());

    let server = Server::start(&data, Some(&platform))?;
    println!("start until ready: {:.2} s", server.ready_after.as_secs_f64());
    std::thread::sleep(Duration::from_secs(2));
    println!("memory after the start: {} MB, threads: {}", memory_mb(server.pid())?, threads(server.pid())?);
    let before = cpu(server.pid())?;
    std::thread::sleep(IDLE);
    let used = cpu(server.pid())? - before;
    println!("idle CPU: {:.2} % of one core over {} s", 100.0 * used / IDLE.as_secs_f64(), IDLE.as_secs());
    let one = tokens[0].at(&server);
    let begin = Instant::now();
    preload(&one, "events", KEYS)?;
    for rule in 0..RULES {
        caught_up(&one, &format!("rule-{rule}"))?;
    }
    println!(
        "{RULES} parked rules of one tenant woken, and through with {KEYS} events each, in {:.0} ms",
        begin.elapsed().as_secs_f64() * 1000.0
    );
    Ok(())
}
