//! What a swap costs: the time of the batches around it, and while the sweep goes on, beside that of an ordinary batch.
//!
//! `cargo build --release -p keyfold -p keyfold-bench && target/release/swap`, after `cargo xtask build`.

use anyhow::{Context, Result};
use keyfold::clock::Clock;
use keyfold::event::{InputId, Millis, OffsetRange, Position, Record, RecordBatch};
use keyfold::extract::{Extractor, TimeFormat};
use keyfold::host::{Activation, Delivery, Host, InputSettings, Settings, StateChoice};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::sink::MemorySink;
use keyfold::source::ReadLimit;
use keyfold::wasm::Component;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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

/// A rule with many keys, and what is needed to replace it.
struct Bench {
    host: Host,
    loader: Arc<Loader>,
    guests: PathBuf,
    next: u64,
}

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
    let mut bench = Bench::open(folder.path())?;
    for _ in 0..KEYS / EVENTS {
        bench.run_batch()?;
    }
    let mut before = (0..BATCHES).map(|_| bench.run_batch()).collect::<Result<Vec<_>>>()?;
    let component = bench.load(guest)?;
    let activation = Activation { component, parameters: serde_json::json!({}), limits: Limits::default(), state };
    let started = Instant::now();
    bench.host.activate(&activation)?;
    let swap = started.elapsed();
    let mut sweeping = Vec::new();
    let mut around = swap + bench.run_batch()?;
    for batch in 1..=BATCHES {
        let left = bench.host.older_rows();
        let took = bench.run_batch()?;
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

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

impl Bench {
    fn open(folder: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let target = program.parent().and_then(Path::parent).context("this program lies in no target folder")?;
        // The `keyfold` of the same profile as this program.
        let compiler = Compiler::with_program(program.with_file_name("keyfold"));
        let loader = Loader::new(Limits::default(), Cache::open(&folder.join("cache"))?, compiler)?;
        let (loader, guests) = (Arc::new(loader), target.join("guests"));
        let component = load(&loader, &guests, "event-time-timeout")?;
        let settings = settings(folder.join("data"), component.description().name.clone())?;
        let sink = Box::new(MemorySink::default());
        let host = Host::open(settings, Clock::System, component, Arc::clone(&loader), sink)?;
        Ok(Bench { host, loader, guests, next: 0 })
    }

    fn load(&self, guest: &str) -> Result<Arc<Component>> {
        load(&self.loader, &self.guests, guest)
    }

    /// The keys come one after another, again and again.
    fn run_batch(&mut self) -> Result<Duration> {
        let mut records = RecordBatch::default();
        let at = |number: u64| Position { offset: number, line: number };
        let (from, to) = (at(self.next), at(self.next + EVENTS));
        records.ranges.push(OffsetRange { input: InputId(0), file: "bench".to_owned(), from, to });
        for number in self.next..self.next + EVENTS {
            let start = records.text.len() as u32;
            let event = format!("{{\"key\":\"k{}\",\"ts\":{}}}", number % KEYS, number + 1);
            records.text.extend_from_slice(event.as_bytes());
            records.records.push(Record { start, end: records.text.len() as u32, range: 0, line: number + 1 });
        }
        self.next += EVENTS;
        let started = Instant::now();
        self.host.run_batch(records, Some(Millis(0)))?;
        Ok(started.elapsed())
    }
}

fn load(loader: &Loader, guests: &Path, guest: &str) -> Result<Arc<Component>> {
    let path = guests.join(format!("{guest}.wasm"));
    let bytes = std::fs::read(&path).with_context(|| format!("no {}: run cargo xtask build", path.display()))?;
    Ok(Arc::new(loader.load(&bytes)?))
}

fn settings(folder: PathBuf, rule: String) -> Result<Settings> {
    let event_time = Some(("/ts".to_owned(), TimeFormat::EpochMs));
    let identity = Identity {
        rule,
        partitions: 2,
        inputs: vec![InputIdentity {
            name: "input".to_owned(),
            key: vec!["/key".to_owned()],
            event_time: Some(("/ts".to_owned(), TimeFormat::EpochMs.name().to_owned())),
        }],
        watermark_policy: WatermarkPolicy::Min,
        record_bytes_max: 0,
        csv_text: Vec::new(),
        id: "bench".to_owned(),
    };
    Ok(Settings {
        folder,
        identity,
        inputs: vec![InputSettings {
            extractor: Extractor::new(vec!["/key".to_owned()], event_time)?,
            // No timeout is due: what is measured is the swap.
            watermark: InputWatermark { delay: Duration::from_secs(1_000_000), idle_after: None },
        }],
        initial_state: None,
        parameters: serde_json::json!({}),
        limits: Limits::default(),
        batch: ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX },
        history_batches: 0,
        overlay_budget: Default::default(),
        twice: false,
        control: Default::default(),
        hosting: Default::default(),
        threads: 2,
        batch_query: false,
        checkpoint: None,
        delivery: Delivery::default(),
    })
}
