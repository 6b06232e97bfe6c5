//! A host inside the test: stopped at a chosen batch by a sink that fails, as a crash at that moment would leave it.

use super::{command, folder, rules};
use anyhow::{Result, anyhow};
use keyfold::checkpoint::CheckpointSettings;
use keyfold::clock::Clock;
use keyfold::config::HISTORY_BATCHES_DEFAULT;
use keyfold::event::{BatchId, PartitionId};
use keyfold::extract::{Extractor, TimeFormat};
use keyfold::host::{Control, Delivery, Host, InputSettings, Observer, Retry, Settings, Trigger};
use keyfold::inspection::{StateDecoder, row_to_json};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity};
use keyfold::progress::Progress;
use keyfold::sink::{FilesSink, Sink, SinkError};
use keyfold::source::file::RECORD_BYTES_MAX_DEFAULT;
use keyfold::source::{FileOptions, FileSource, ReadLimit};
use keyfold::state::reader::PartitionReader;
use keyfold::state::{Budget, DeadLetter, OVERLAY_BYTES_DEFAULT, OutputBlock};
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// When the sink fails, and with it the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Never.
    None,
    /// The batch is committed, nothing of it is delivered.
    BeforeDelivery(u64),
    /// The batch is delivered, and that is not written down.
    AfterDelivery(u64),
}

/// One rule over one folder, in batches of few events.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The component's bytes.
    pub component: Vec<u8>,
    pub input: PathBuf,
    pub data: PathBuf,
    pub output: PathBuf,
    /// A JSON Pointer.
    pub key: &'static str,
    pub event_time: Option<&'static str>,
    /// How far the watermark stays behind.
    pub delay: Duration,
    pub partitions: u32,
    pub threads: usize,
    pub batch_events: usize,
    pub history_batches: u64,
    pub checkpoint: Option<CheckpointSettings>,
    pub overlay_bytes_max: usize,
    /// Batches that may wait for the sink. One: the batch after the one whose delivery fails is planned, and no other.
    pub outbox_batches_max: u64,
    /// Bytes of outputs that are held in memory while they wait.
    pub memory_bytes_max: usize,
}

impl Stream {
    /// An example over `work/input`, writing to folders of this name.
    pub fn of_example(example: &str, work: &Path, name: &str) -> Self {
        Stream {
            component: fs::read(command::example(example).join("rule.wasm")).expect("it is there"),
            input: work.join("input"),
            data: work.join(format!("{name}-data")),
            output: work.join(format!("{name}-output")),
            key: "/user_id",
            event_time: None,
            delay: Duration::from_secs(10),
            partitions: 3,
            threads: 2,
            batch_events: 1000,
            history_batches: HISTORY_BATCHES_DEFAULT,
            checkpoint: None,
            overlay_bytes_max: OVERLAY_BYTES_DEFAULT,
            outbox_batches_max: 1,
            memory_bytes_max: usize::MAX,
        }
    }

    /// Runs until the input is used up or the fault stops it.
    pub fn run(&self, fault: Fault) -> Result<()> {
        self.run_until(&AtomicBool::new(false), fault)
    }

    /// Runs until the input is used up, the fault stops it, or `stop` is set.
    pub fn run_until(&self, stop: &AtomicBool, fault: Fault) -> Result<()> {
        let sink = FaultySink { files: FilesSink::open(&self.output)?, fault };
        self.run_watched(Box::new(sink), stop, &mut Nobody)
    }

    /// Runs with this sink until the input is used up and delivered, or until it is stopped.
    pub fn run_watched(&self, sink: Box<dyn Sink>, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<()> {
        self.open(sink)?.run(&mut self.source()?, Trigger::AvailableNow, stop, observer)
    }

    /// Runs with this sink until the input is used up and delivered.
    pub fn run_with(&self, sink: Box<dyn Sink>) -> Result<()> {
        self.run_watched(sink, &AtomicBool::new(false), &mut Nobody)
    }

    /// Opens the host.
    pub fn open(&self, sink: Box<dyn Sink>) -> Result<Host> {
        self.open_controlled(sink, Arc::default(), &loader(&Limits::default()))
    }

    /// Opens the host, of which others can ask something.
    pub fn open_controlled(&self, sink: Box<dyn Sink>, control: Arc<Control>, loader: &Arc<Loader>) -> Result<Host> {
        let component = Arc::new(loader.load(&self.component)?);
        // Not named after the component: another version may take its place.
        let settings = Settings { control, ..self.settings("stream")? };
        Host::open(settings, Clock::System, component, Arc::clone(loader), sink)
    }

    /// What it reads.
    pub fn source(&self) -> Result<FileSource> {
        FileSource::new(vec![self.input.display().to_string()], FileOptions::default())
    }

    /// Runs into the fault.
    pub fn run_into(&self, fault: Fault) {
        let error = self.run(fault).expect_err("the sink's fault stops the run");
        assert!(format!("{error:#}").contains(FAULT), "another fault came first: {error:#}");
    }

    /// Runs to the end of the input.
    pub fn run_to_the_end(&self) {
        self.run(Fault::None).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Copies what is known of the state now to another folder.
    pub fn save(&self, to: &Path) {
        folder::copy(&self.data, to);
    }

    /// Every key's row as JSON, partition after partition.
    pub fn states(&self) -> Vec<Value> {
        let decoder = StateDecoder::of_folder(&self.data).expect("the folder has a plan log");
        let mut states = Vec::new();
        self.each_partition(|_, reader| {
            reader.scan(|row| {
                states.push(row_to_json(&row, &decoder, None));
                Ok(())
            })
        });
        states
    }

    /// All dead letters with their partition and batch.
    pub fn dead_letters(&self) -> Vec<(u32, BatchId, DeadLetter)> {
        let mut letters = Vec::new();
        self.each_partition(|partition, reader| {
            reader.dead_letters(|batch, letter| {
                letters.push((partition, batch, letter));
                Ok(())
            })
        });
        letters
    }

    /// The last committed batch of each partition.
    pub fn committed(&self) -> Vec<Option<BatchId>> {
        let mut committed = Vec::new();
        self.each_partition(|_, reader| {
            committed.push(reader.committed());
            Ok(())
        });
        committed
    }

    fn each_partition(&self, mut each: impl FnMut(u32, &PartitionReader) -> Result<()>) {
        for partition in 0..self.partitions {
            let reader = PartitionReader::open(&self.data, PartitionId(partition));
            reader.and_then(|reader| each(partition, &reader)).unwrap_or_else(|error| panic!("{error:#}"));
        }
    }

    fn settings(&self, rule: &str) -> Result<Settings> {
        let key = vec![self.key.to_owned()];
        let event_time = self.event_time.map(|pointer| (pointer.to_owned(), TimeFormat::EpochMs));
        Ok(Settings {
            folder: self.data.clone(),
            identity: Identity {
                rule: rule.to_owned(),
                partitions: self.partitions,
                inputs: vec![InputIdentity {
                    name: "input".to_owned(),
                    key: key.clone(),
                    event_time: self.event_time.map(|pointer| (pointer.to_owned(), "epoch-ms".to_owned())),
                }],
                watermark_policy: WatermarkPolicy::Min,
                record_bytes_max: RECORD_BYTES_MAX_DEFAULT,
                csv_text: Vec::new(),
                id: "test".to_owned(),
            },
            inputs: vec![InputSettings {
                extractor: Extractor::new(key, event_time)?,
                watermark: InputWatermark { delay: self.delay, idle_after: None },
            }],
            initial_state: None,
            parameters: serde_json::json!({}),
            limits: Limits::default(),
            batch: ReadLimit { records_max: self.batch_events, bytes_max: 1 << 24 },
            threads: self.threads,
            batch_query: false,
            history_batches: self.history_batches,
            checkpoint: self.checkpoint.clone(),
            overlay_budget: Budget::new(self.overlay_bytes_max),
            twice: true,
            control: Default::default(),
            hosting: Default::default(),
            delivery: Delivery {
                outbox_batches_max: self.outbox_batches_max,
                memory_bytes_max: self.memory_bytes_max,
                retry: RETRY,
                ..Delivery::default()
            },
        })
    }
}

/// Loads components with the program under test.
fn loader(limits: &Limits) -> Arc<Loader> {
    Arc::new(rules::loader(limits))
}

/// A sink of a test is back at once.
const RETRY: Retry =
    Retry { pause_min: Duration::from_millis(1), pause_max: Duration::from_millis(5), failures_max: 3 };

const FAULT: &str = "the disk of the sink is full";

struct FaultySink {
    files: FilesSink,
    fault: Fault,
}

impl Sink for FaultySink {
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        if self.fault == Fault::BeforeDelivery(batch.0) {
            return Err(anyhow!(FAULT).into());
        }
        self.files.deliver(batch, blocks)?;
        if self.fault == Fault::AfterDelivery(batch.0) {
            return Err(anyhow!(FAULT).into());
        }
        Ok(())
    }

    fn description(&self) -> String {
        self.files.description()
    }
}

/// An observer that looks away.
pub struct Nobody;

impl Observer for Nobody {
    fn batch(&mut self, _: &Progress, _: Option<(u64, u64)>) {}
}
