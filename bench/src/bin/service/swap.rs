//! What a swap costs a busy rule: the longest time between two of its commits during swaps and roll-backs, beside ordinary ones, and
//! how long the requests take.

use crate::load::{manifest, user};
use crate::server::Server;
use anyhow::{Context, Result, ensure};
use keyfold_bench::latencies::percentile;
use keyfold_bench::rules::example;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Events of one body.
const EVENTS: u64 = 500;
/// Threads that send.
const SENDERS: u64 = 2;
/// Swaps to the other version and back.
const SWAPS: usize = 5;
/// Between two swaps.
const PAUSE: Duration = Duration::from_secs(2);
/// A swap is felt no longer than this after its answer.
const AFTER: Duration = Duration::from_millis(500);
/// How often the rule's progress is read: it has the last hundred batches.
const LOOK: Duration = Duration::from_millis(500);

/// A request for another version, from its begin to its answer, in milliseconds since 1970.
struct Swap {
    name: &'static str,
    begin_ms: i64,
    end_ms: i64,
}

pub fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(&folder.path().join("data"), None)?;
    // No quota is to set the pace.
    let quotas =
        json!({"events_per_second": 10_000_000, "requests_per_second": 100_000, "outputs_per_second": 10_000_000});
    let client = server.tenant("bank", quotas)?;
    client.put("streams/payments", &json!({}))?;
    client.rule("count", &manifest("payments"), &example("running-count"))?;
    let other = client.push("count", &padded(folder.path().join("other.wasm"))?)?;
    let stop = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    let mut swaps = Vec::new();
    let commits = Mutex::new(BTreeMap::new());
    let look = || -> Result<()> {
        let progress = client.get("rules/count/progress")?;
        let ends = progress.as_array().context("progress is a list")?.iter().filter_map(end_ms);
        commits.lock().expect("no thread panics").extend(ends);
        Ok(())
    };
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
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // What is missed now is there the next time.
                let _ = look();
                std::thread::sleep(LOOK);
            }
        });
        std::thread::sleep(PAUSE);
        let mut swap = |name, path: &str, body: Value| -> Result<()> {
            let begin_ms = now_ms();
            client.post(path, &body)?;
            swaps.push(Swap { name, begin_ms, end_ms: now_ms() });
            std::thread::sleep(PAUSE);
            Ok(())
        };
        let swapped = (0..SWAPS).try_for_each(|_| {
            swap("activate", "rules/count/activate", json!({"version": other, "state": "keep"}))?;
            swap("roll back", "rules/count/rollback", json!({"state": "keep"}))
        });
        stop.store(true, Ordering::Relaxed);
        swapped
    })?;
    crate::load::caught_up(&client, "count")?;
    look()?;
    report(&commits.into_inner()?, &swaps)?;
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

fn report(commits: &BTreeMap<u64, i64>, swaps: &[Swap]) -> Result<()> {
    // What was not looked at in time is missing: only batches that follow one another tell.
    let pairs = commits.iter().filter_map(|(batch, from)| Some((*from, *commits.get(&(batch + 1))?)));
    let is_swap = |from: i64, to: i64| {
        swaps.iter().any(|swap| from < swap.end_ms + AFTER.as_millis() as i64 && to > swap.begin_ms)
    };
    let (during, ordinary): (Vec<_>, Vec<_>) = pairs.partition(|&(from, to)| is_swap(from, to));
    let sorted = |gaps: Vec<(i64, i64)>| {
        let length = |(from, to): (i64, i64)| Duration::from_millis((to - from).max(0) as u64);
        let mut gaps: Vec<Duration> = gaps.into_iter().map(length).collect();
        gaps.sort_unstable();
        gaps
    };
    let (during, ordinary) = (sorted(during), sorted(ordinary));
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!("{:<44}{:>9}{:>9}{:>9}", "from commit to commit, ms", "batches", "median", "longest");
    for (name, gaps) in [("ordinary", &ordinary), ("during swaps and roll-backs", &during)] {
        let (median, longest) = (percentile(gaps, 0.5), gaps.last().copied().unwrap_or_default());
        println!("{name:<44}{:>9}{:>9.0}{:>9.0}", gaps.len(), ms(median), ms(longest));
    }
    let longest = during.last().copied().context("there are batches during swaps")?;
    let ratio = longest.as_secs_f64() / percentile(&ordinary, 0.5).as_secs_f64();
    println!("longest during a swap / ordinary median: {ratio:.2}");
    for name in ["activate", "roll back"] {
        let mut times: Vec<i64> =
            swaps.iter().filter(|swap| swap.name == name).map(|swap| swap.end_ms - swap.begin_ms).collect();
        times.sort_unstable();
        let longest = times.last().copied().unwrap_or_default();
        println!("{name}, request to answer, ms: median {}, longest {longest}", times[times.len() / 2]);
    }
    Ok(())
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// A batch, and when it was committed and delivered: its trigger and how long it took.
fn end_ms(record: &Value) -> Option<(u64, i64)> {
    let begin: jiff::Timestamp = record["timestamp"].as_str()?.parse().ok()?;
    Some((record["batchId"].as_u64()?, begin.as_millisecond() + record["batchDuration"].as_i64()?))
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
