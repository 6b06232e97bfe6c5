//! [`Fed`]: a host that is fed batch by batch from memory, with a guest of the tests as its rule.

use anyhow::{Context, Result};
use keyfold::clock::Clock;
use keyfold::event::{InputId, OffsetRange, Position, Record, RecordBatch};
use keyfold::extract::{Extractor, TimeFormat};
use keyfold::host::{Delivery, Host, InputSettings, Settings};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::sink::MemorySink;
use keyfold::source::ReadLimit;
use keyfold::wasm::Component;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A host that is fed batch by batch.
pub struct Fed {
    /// The host.
    pub host: Host,
    loader: Arc<Loader>,
    guests: PathBuf,
}

impl Fed {
    /// Two partitions in a new data folder, with this guest. Watermarks are so far behind that none makes a timeout due.
    pub fn open(folder: &Path, guest: &str, clock: Clock) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let target = program.parent().and_then(Path::parent).context("this program lies in no target folder")?;
        // The `keyfold` of the same profile as this program.
        let compiler = Compiler::with_program(program.with_file_name("keyfold"));
        let loader = Arc::new(Loader::new(Limits::default(), Cache::open(&folder.join("cache"))?, compiler)?);
        let guests = target.join("guests");
        let component = load(&loader, &guests, guest)?;
        let settings = settings(folder.join("data"), component.description().name.clone())?;
        let host = Host::open(settings, clock, component, Arc::clone(&loader), Box::new(MemorySink::default()))?;
        Ok(Fed { host, loader, guests })
    }

    /// Another guest.
    pub fn load(&self, guest: &str) -> Result<Arc<Component>> {
        load(&self.loader, &self.guests, guest)
    }
}

/// Events with these numbers, one for each: number n is at n + 1 ms and belongs to the key `k` with what `key` makes of n.
pub fn events(numbers: Range<u64>, key: impl Fn(u64) -> u64) -> RecordBatch {
    let mut records = RecordBatch::default();
    let at = |number: u64| Position { offset: number, line: number };
    let (from, to) = (at(numbers.start), at(numbers.end));
    records.ranges.push(OffsetRange { input: InputId(0), file: "bench".to_owned(), from, to });
    for number in numbers {
        let start = records.text.len() as u32;
        let event = format!("{{\"key\":\"k{}\",\"ts\":{}}}", key(number), number + 1);
        records.text.extend_from_slice(event.as_bytes());
        records.records.push(Record { start, end: records.text.len() as u32, range: 0, line: number + 1 });
    }
    records
}

/// Finds the key and the time of [`events`].
pub fn extractor() -> Result<Extractor> {
    Extractor::new(vec!["/key".to_owned()], Some(("/ts".to_owned(), TimeFormat::EpochMs)))
}

/// The median; zero of nothing.
pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn load(loader: &Loader, guests: &Path, guest: &str) -> Result<Arc<Component>> {
    let path = guests.join(format!("{guest}.wasm"));
    let bytes = std::fs::read(&path).with_context(|| format!("no {}: run cargo xtask build", path.display()))?;
    Ok(Arc::new(loader.load(&bytes)?))
}

fn settings(folder: PathBuf, rule: String) -> Result<Settings> {
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
            extractor: extractor()?,
            // Events must not make each other's timeouts due.
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
