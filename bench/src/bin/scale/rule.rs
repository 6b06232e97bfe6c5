//! [`Rule`]: card sessions over files, in this process, with everything on the disk as `keyfold run` has it; [`Ran`]: what a run took.

use anyhow::{Context, Result, ensure};
use keyfold::clock::Clock;
use keyfold::config::{BATCH_EVENTS_DEFAULT, HISTORY_BATCHES_DEFAULT};
use keyfold::event::{Millis, RecordBatch};
use keyfold::extract::{Extractor, TimeFormat};
use keyfold::host::{BatchOutcome, Delivery, Host, InputSettings, Observer, Settings, Trigger};
use keyfold::inspection::StateDecoder;
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::progress::Progress;
use keyfold::sink::FilesSink;
use keyfold::source::{FileOptions, FileSource, ReadLimit};
use keyfold::state::Budget;
use keyfold::state::folder_reader::FolderReader;
use keyfold::wasm::Component;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use keyfold_bench::process;
use keyfold_bench::rules::example;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The state files of a rule.
const PARTITIONS: u32 = 2;
/// As the example's rule file has it: events that share a millisecond may come in two batches.
pub const WATERMARK_DELAY: Duration = Duration::from_secs(10);
/// Bytes of text of a batch at most: so many that the events decide.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// How the rule runs. The default is that of `keyfold run` on a machine with two cores.
#[derive(Clone, Copy)]
pub struct Options {
    /// Threads for the partitions.
    pub threads: usize,
    /// Events of one batch at most.
    pub batch_events: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { threads: 2, batch_events: BATCH_EVENTS_DEFAULT }
    }
}

/// Card sessions in a folder of their own.
pub struct Rule {
    host: Host,
    work: PathBuf,
    events: u64,
}

/// What a run took.
pub struct Ran {
    /// Events that were read.
    pub events: u64,
    /// Until the last output was delivered.
    pub seconds: f64,
    /// Processor time of this process.
    pub cpu_seconds: f64,
    /// The most that this process held, in megabytes.
    pub peak_mb: u64,
    /// Batches that they came in.
    pub batches: u64,
}

impl Ran {
    /// Events in a second.
    pub fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }

    /// Microseconds of processor time for an event.
    pub fn cpu_micros(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.events as f64
    }
}

/// The run in the middle, by its rate.
pub fn median(mut runs: Vec<Ran>) -> Ran {
    runs.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    runs.swap_remove(runs.len() / 2)
}

/// Loads an example, compiling it once for all measurements of a work folder.
pub fn load(work: &Path, name: &str) -> Result<(Arc<Loader>, Arc<Component>)> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    // The `keyfold` of the same profile as this program.
    let compiler = Compiler::with_program(program.with_file_name("keyfold"));
    let loader = Arc::new(Loader::new(Limits::default(), Cache::open(&work.join("cache"))?, compiler)?);
    let path = example(name);
    let bytes = fs::read(&path).with_context(|| format!("no {}: run cargo xtask build", path.display()))?;
    let component = Arc::new(loader.load(&bytes)?);
    Ok((loader, component))
}

impl Rule {
    /// With a new data folder and a new folder for the outputs in `scratch`, which are deleted when the rule is closed.
    pub fn open(scratch: &Path, options: Options) -> Result<Self> {
        let (loader, component) = load(scratch, "card-sessions")?;
        let work = scratch.join("rule");
        fs::create_dir_all(work.join("input"))?;
        let sink = FilesSink::open(&work.join("output"))?;
        let settings = settings(work.join("data"), options)?;
        let host = Host::open(settings, Clock::System, component, loader, Box::new(sink))?;
        Ok(Rule { host, work, events: 0 })
    }

    /// Lets the rule read the file that `write` writes, and deletes it.
    pub fn read(&mut self, write: impl FnOnce(&Path) -> Result<()>) -> Result<Ran> {
        let path = self.work.join("input").join(format!("from-{:012}.jsonl", self.events));
        write(&path).with_context(|| format!("failed to write {}", path.display()))?;
        let mut source = FileSource::new(vec![path.display().to_string()], FileOptions::default())?;
        process::forget_own_peak()?;
        let (cpu, started) = (process::own_cpu()?, Instant::now());
        let mut seen = Seen::default();
        self.host.run(&mut source, Trigger::AvailableNow, &AtomicBool::new(false), &mut seen)?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu_seconds = process::own_cpu()? - cpu;
        ensure!(seen.lost == 0, "{} events were late or went to the dead letters", seen.lost);
        self.events += seen.events;
        fs::remove_file(&path)?;
        Ok(Ran { events: seen.events, seconds, cpu_seconds, peak_mb: process::own_peak_mb()?, batches: seen.batches })
    }

    /// Runs a batch with these records, and a watermark that has come at least this far.
    pub fn run_batch(&mut self, records: RecordBatch, watermark: Option<Millis>) -> Result<BatchOutcome> {
        self.host.run_batch(records, watermark)
    }

    /// Events of all the files.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Closes the rule and checks that so many users have a session, and that all the sessions have counted so many payments. Returns
    /// the megabytes of the data folder.
    pub fn close(self, users: u64, payments: u64) -> Result<u64> {
        let Rule { host, work, .. } = self;
        drop(host);
        let data = work.join("data");
        let decoder = StateDecoder::of_folder(&data)?;
        let (mut keys, mut counted) = (0, 0);
        FolderReader::open(&data, 0..PARTITIONS)?.scan(|_, row| {
            let session = row.value().and_then(|(state, _)| decoder.decode(state)).context("a user has no session")?;
            keys += 1;
            counted += session["count"].as_u64().context("a session has no count")?;
            Ok(())
        })?;
        ensure!(keys == users, "{keys} users have a session, {users} have paid");
        ensure!(counted == payments, "the sessions count {counted} payments, there were {payments}");
        let megabytes = size(&data)? >> 20;
        fs::remove_dir_all(&work)?;
        Ok(megabytes)
    }
}

/// What batches said.
#[derive(Default)]
struct Seen {
    events: u64,
    lost: u64,
    batches: u64,
}

impl Observer for Seen {
    fn batch(&mut self, progress: &Progress, _: Option<(u64, u64)>) {
        self.events += progress.num_input_rows;
        for operator in &progress.state_operators {
            self.lost += operator.num_rows_dropped_by_watermark + operator.custom_metrics.num_dead_letters;
        }
        self.batches += 1;
    }
}

fn settings(folder: PathBuf, options: Options) -> Result<Settings> {
    let (key, event_time) = (vec!["/user_id".to_owned()], ("/ts".to_owned(), TimeFormat::EpochMs));
    Ok(Settings {
        folder,
        identity: Identity {
            rule: "card-sessions".to_owned(),
            partitions: PARTITIONS,
            inputs: vec![InputIdentity {
                name: "input".to_owned(),
                key: key.clone(),
                event_time: Some((event_time.0.clone(), event_time.1.name().to_owned())),
            }],
            watermark_policy: WatermarkPolicy::Min,
            record_bytes_max: FileOptions::default().record_bytes_max,
            csv_text: Vec::new(),
            id: Identity::new_id(&Clock::System),
        },
        inputs: vec![InputSettings {
            extractor: Extractor::new(key, Some(event_time))?,
            watermark: InputWatermark { delay: WATERMARK_DELAY, idle_after: None },
        }],
        initial_state: None,
        parameters: serde_json::json!({}),
        limits: Limits::default(),
        batch: ReadLimit { records_max: options.batch_events, bytes_max: BATCH_BYTES_MAX },
        threads: options.threads,
        history_batches: HISTORY_BATCHES_DEFAULT,
        checkpoint: None,
        overlay_budget: Budget::default(),
        batch_query: false,
        twice: false,
        control: Default::default(),
        hosting: Default::default(),
        delivery: Delivery::default(),
    })
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
