//! What a swap costs a busy rule: the longest time between two of its batches around swaps and roll-backs, beside that of
//! ordinary ones, and how long the requests take.

use crate::load::{manifest, percentile, user};
use crate::server::Server;
use anyhow::{Context, Result, ensure};
use keyfold_bench::rules::example;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events of one body.
const EVENTS: u64 = 500;
/// Threads that send.
const SENDERS: u64 = 2;
/// Swaps to the other version and back.
const SWAPS: usize = 5;
/// Between two swaps.
const PAUSE: Duration = Duration::from_secs(2);

pub fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(&folder.path().join("data"), None)?;
    let client = server.tenant("bank", json!({"events_per_second": 1_000_000, "requests_per_second": 100_000}))?;
    client.put("streams/payments", &json!({}))?;
    client.rule("count", &manifest("payments"), &example("running-count"))?;
    let other = client.push("count", &padded(folder.path().join("other.wasm"))?)?;
    let stop = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    let mut took = (Vec::new(), Vec::new());
    let send = |sender: u64| {
        let mut number = sender;
        while !stop.load(Ordering::Relaxed) {
            let lines: String = (0..EVENTS)
                .map(|event| format!("{}\n", json!({"user_id": user((number * EVENTS + event) % 10_000)})))
                .collect();
            if client.ingest("payments", lines.into_bytes()).is_ok() {
                sent.fetch_add(EVENTS, Ordering::Relaxed);
            }
            number += SENDERS;
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        for sender in 0..SENDERS {
            let send = &send;
            scope.spawn(move || send(sender));
        }
        std::thread::sleep(PAUSE);
        let mut swaps = || -> Result<()> {
            for _ in 0..SWAPS {
                let begin = Instant::now();
                client.post("rules/count/activate", &json!({"version": other, "state": "keep"}))?;
                took.0.push(begin.elapsed());
                std::thread::sleep(PAUSE);
                let begin = Instant::now();
                client.post("rules/count/rollback", &json!({"state": "keep"}))?;
                took.1.push(begin.elapsed());
                std::thread::sleep(PAUSE);
            }
            Ok(())
        };
        let swapped = swaps();
        stop.store(true, Ordering::Relaxed);
        swapped
    })?;
    crate::load::caught_up(&client, "count")?;
    let progress = client.get("rules/count/progress")?;
    report(progress.as_array().context("progress is a list")?, &mut took, sent.load(Ordering::Relaxed))?;
    let outputs = counts(&client)?;
    let sum: u64 = outputs.values().sum();
    ensure!(sum == sent.load(Ordering::Relaxed), "{sum} events were counted, {} were sent", sent.into_inner());
    println!("events sent and counted over {} swaps: {sum}, none lost, none twice", 2 * SWAPS);
    Ok(())
}

/// The same component with a section that nobody reads: other bytes, so another version.
fn padded(path: PathBuf) -> Result<PathBuf> {
    let mut bytes = std::fs::read(example("running-count"))?;
    // A custom section: its number, its length, the length of its name, the name, and nothing.
    bytes.extend_from_slice(b"\0\x06\x05other");
    std::fs::write(&path, bytes)?;
    Ok(path)
}

fn report(records: &[Value], took: &mut (Vec<Duration>, Vec<Duration>), sent: u64) -> Result<()> {
    let ends = records.iter().filter_map(end_ms).collect::<Vec<i64>>();
    let mut gaps: Vec<Duration> =
        ends.windows(2).map(|pair| Duration::from_millis((pair[1] - pair[0]).max(0) as u64)).collect();
    gaps.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!("{sent} events in {} batches that are remembered", records.len());
    println!(
        "from batch to batch, ms: median {:.0}, longest {:.0}",
        ms(percentile(&gaps, 0.5)),
        ms(gaps.last().copied().context("there are batches")?)
    );
    for (name, times) in [("activate", &mut took.0), ("roll back", &mut took.1)] {
        times.sort_unstable();
        println!(
            "{name}, request to answer, ms: median {:.1}, longest {:.1}",
            ms(percentile(times, 0.5)),
            ms(times.last().copied().unwrap_or_default())
        );
    }
    Ok(())
}

/// When a batch ended: its trigger and how long it took.
fn end_ms(record: &Value) -> Option<i64> {
    let begin: jiff::Timestamp = record["timestamp"].as_str()?.parse().ok()?;
    Some(begin.as_millisecond() + record["batchDuration"].as_i64()?)
}

/// The last count of each user.
fn counts(client: &crate::server::Client) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    let mut from = 0;
    loop {
        let events = client.read("count.outputs", from)?;
        for event in &events {
            let output = &event["event"]["output"];
            let user = output["key"].as_str().context("an output has a key")?;
            counts.insert(user.to_owned(), output["count"].as_u64().context("an output has a count")?);
        }
        match events.last().and_then(|event| event["number"].as_u64()) {
            Some(last) => from = last + 1,
            None => return Ok(counts),
        }
    }
}
