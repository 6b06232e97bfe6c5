//! Requests at a steady rate, and what became of them.

use crate::server::Client;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests that wait for their answer at the same time, at most.
const THREADS: usize = 48;

/// Asks a rule that counts the events of each user for its decision, at a steady rate.
///
/// Each latency counts from the moment at which the request was due, so that a slow answer shows in those behind it, too. The
/// count in each answer is compared with how often the user was asked about.
pub struct Steady<'a> {
    /// Who asks.
    pub client: &'a Client,
    /// The rule.
    pub rule: &'a str,
    /// Requests a second.
    pub rate: u64,
    /// How many.
    pub requests: u64,
    /// Over so many users, in turn.
    pub users: u64,
    /// How often each of them was counted before.
    pub counted: u64,
}

impl Steady<'_> {
    /// The latencies, sorted.
    pub fn run(&self) -> Result<Vec<Duration>> {
        let next = AtomicU64::new(0);
        let latencies = Mutex::new(Vec::new());
        let failures = Mutex::new(Vec::new());
        let begin = Instant::now();
        let ask = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.requests {
                    return;
                }
                let due = begin + Duration::from_secs_f64(number as f64 / self.rate as f64);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                match self.ask(number) {
                    Ok(()) => latencies.lock().expect("no thread panics").push(due.elapsed()),
                    Err(error) => failures.lock().expect("no thread panics").push(error),
                }
            }
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(ask))));
        let failures = failures.into_inner()?;
        ensure!(failures.is_empty(), "{} of {} failed: {:#}", failures.len(), self.requests, failures[0]);
        let mut latencies = latencies.into_inner()?;
        latencies.sort_unstable();
        Ok(latencies)
    }

    fn ask(&self, number: u64) -> Result<()> {
        let user = user(number % self.users);
        let event = json!({"user_id": user, "number": number});
        let decision = self.client.post(&format!("rules/{}/decide", self.rule), &event)?;
        ensure!(decision["decided"] == true, "no decision: {decision}");
        let expected = self.counted + number / self.users + 1;
        let counts: Vec<&Value> = decision["outputs"]
            .as_array()
            .map(|outputs| {
                outputs.iter().map(|output| output.pointer("/output/count").unwrap_or(&output["count"])).collect()
            })
            .unwrap_or_default();
        // Two requests about one user may overtake each other on their way.
        let count = counts.last().and_then(|count| count.as_u64());
        ensure!(
            count.is_some_and(|count| count.abs_diff(expected) <= 1),
            "{user} was asked about {expected} times, the rule says {decision}"
        );
        Ok(())
    }
}

/// The name of a user.
pub fn user(number: u64) -> String {
    format!("user-{number:06}")
}

/// A rule over one stream, keyed by user.
pub fn manifest(stream: &str) -> Value {
    json!({"inputs": {"input": {"stream": stream, "key": ["/user_id"]}}, "decide": {"deadline": "30s"}})
}

/// Events of so many users, one for each, in bodies of a thousand.
pub fn preload(client: &Client, stream: &str, users: u64) -> Result<()> {
    for first in (0..users).step_by(1000) {
        let line = |number| format!("{}\n", json!({"user_id": user(number)}));
        let lines: String = (first..users.min(first + 1000)).map(line).collect();
        client.ingest(stream, lines.into_bytes())?;
    }
    Ok(())
}

/// Waits until a rule has read everything.
pub fn caught_up(client: &Client, rule: &str) -> Result<Value> {
    let begin = Instant::now();
    loop {
        let found = client.get(&format!("rules/{rule}"))?;
        let status = &found["status"];
        if status["lag"] == 0 && status["batch"].is_u64() {
            return Ok(found);
        }
        ensure!(begin.elapsed() < Duration::from_secs(600), "the rule {rule} does not catch up: {found}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
