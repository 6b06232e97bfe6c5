//! What a swap costs: the time of the batches around it, and while the sweep goes on, beside that of an ordinary batch.
//!
//! `cargo build --release -p keyfold -p keyfold-bench && target/release/swap`, after `cargo xtask build`.

use anyhow::Result;
use keyfold::clock::Clock;
use keyfold::event::Millis;
use keyfold::host::{Activation, StateChoice};
use keyfold::limits::Limits;
use keyfold_bench::fed::{Fed, events, median};
use std::time::{Duration, Instant};

/// Keys with a state when the swap comes.
const KEYS: u64 = 100_000;
/// Events of a batch.
const EVENTS: u64 = 10_000;
/// Batches before the swap that are measured, and after it.
const BATCHES: usize = 40;
/// Each choice, and the guest that takes over from one that counts.
const SWAPS: [(StateChoice, &str); 4] = [
    (StateChoice::Keep, "either-timeout"),
    (StateChoice::Migrate, "migrating"),
    (StateChoice::Fresh, "migrating"),
    (StateChoice::Drain, "migrating"),
];

fn main() -> Result<()> {
    println!("{KEYS} keys, batches of {EVENTS} events; milliseconds between commits, and batches");
    let head = ["ordinary", "longest", "the swap", "around it", "ratio", "sweeping", "batches"];
    println!("{:<10}{}", "", head.map(|name| format!("{name:>12}")).concat());
    for (state, guest) in SWAPS {
        measure(state, guest)?;
    }
    Ok(())
}

/// One line of the table. `ordinary` and `longest`: the batches before the swap, their median and the longest of them; `around it`:
/// the longest time between two commits of the swap and the two batches after it; `sweeping`: the median of the batches that swept.
fn measure(state: StateChoice, guest: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut fed = Fed::open(folder.path(), "event-time-timeout", Clock::System)?;
    let mut next = 0;
    for _ in 0..KEYS / EVENTS {
        run_batch(&mut fed, &mut next)?;
    }
    let mut before = (0..BATCHES).map(|_| run_batch(&mut fed, &mut next)).collect::<Result<Vec<_>>>()?;
    let component = fed.load(guest)?;
    let activation = Activation { component, parameters: serde_json::json!({}), limits: Limits::default(), state };
    let started = Instant::now();
    fed.host.activate(&activation)?;
    let swap = started.elapsed();
    let mut sweeping = Vec::new();
    let mut around = swap + run_batch(&mut fed, &mut next)?;
    for batch in 1..=BATCHES {
        let left = fed.host.older_rows();
        let took = run_batch(&mut fed, &mut next)?;
        if batch <= 2 {
            around = around.max(took);
        }
        if left.to_migrate + left.to_forget > 0 {
            sweeping.push(took);
        }
    }
    let batches = sweeping.len();
    let (ordinary, longest, sweeping) =
        (median(&mut before), before.iter().max().copied().unwrap_or_default(), median(&mut sweeping));
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
    let ratio = format!("{:.1}", around.as_secs_f64() / ordinary.as_secs_f64());
    let cells = [ms(ordinary), ms(longest), ms(swap), ms(around), ratio, ms(sweeping), batches.to_string()];
    let name = serde_json::to_value(state)?;
    println!("{:<10}{}", name.as_str().unwrap_or_default(), cells.map(|cell| format!("{cell:>12}")).concat());
    Ok(())
}

/// The next batch: the keys come one after another, again and again.
fn run_batch(fed: &mut Fed, next: &mut u64) -> Result<Duration> {
    let records = events(*next..*next + EVENTS, |number| number % KEYS);
    *next += EVENTS;
    let started = Instant::now();
    fed.host.run_batch(records, Some(Millis(0)))?;
    Ok(started.elapsed())
}
