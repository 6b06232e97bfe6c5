//! Rules under test, each in a host of its own that runs batches of JSON lines and shows what became of them.

use super::command::{KEYFOLD, cache, root, target};
use super::folder;
use anyhow::Result;
use keyfold::clock::Clock;
use keyfold::config::HISTORY_BATCHES_DEFAULT;
use keyfold::event::{InputId, Millis, OffsetRange, PartitionId, Position, Record, RecordBatch};
use keyfold::extract::{Extractor, TimeFormat};
use keyfold::host::{
    Activation, BatchOutcome, Delivery, Host, InputSettings, OlderRows, Settings, StateChoice, Swapped, Trigger,
};
use keyfold::imports;
use keyfold::inspection::{StateDecoder, row_to_json};
use keyfold::limits::Limits;
use keyfold::plan::{Identity, InputIdentity, Plan};
use keyfold::progress::{Progress, StateOperatorProgress};
use keyfold::sink::MemorySink;
use keyfold::source::{EmptySource, ReadLimit, Source};
use keyfold::state::reader::PartitionReader;
use keyfold::state::{Budget, DeadLetter, OVERLAY_BYTES_DEFAULT};
use keyfold::wasm::Component;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use keyfold::watermark::{InputWatermark, WatermarkPolicy};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// The file that the events of a trial are said to come from.
pub const FILE: &str = "trial.jsonl";

/// A guest of the tests, as the compiler made it.
pub fn guest(name: &str) -> Vec<u8> {
    read(&target().join("guests").join(format!("{name}.wasm")))
}

/// The component of an example.
pub fn example(name: &str) -> Vec<u8> {
    read(&root().join("examples").join(name).join("rule.wasm"))
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}: run `cargo xtask build`", path.display()))
}

/// Loads components, with compiled code that is shared by all tests and runs of them.
pub fn loader(limits: &Limits) -> Loader {
    let cache = Cache::open(&cache()).expect("the target folder can be written");
    Loader::new(limits.clone(), cache, compiler()).expect("wasmtime starts")
}

/// Compiles with the binary under test.
pub fn compiler() -> Compiler {
    Compiler::with_program(KEYFOLD.into())
}

/// An event with the key and the event time where a trial looks for them.
pub fn event(key: &str, at_ms: i64) -> String {
    json!({ "key": key, "at": at_ms }).to_string()
}

/// What a trial is made of.
pub struct Setup {
    /// The component or core module.
    pub rule: Vec<u8>,
    /// What the rule may use.
    pub limits: Limits,
    /// One partition keeps the outputs in the order of the groups.
    pub partitions: u32,
    /// The rule's parameters.
    pub parameters: Value,
    /// Bytes that a batch query holds at once; none for a stream.
    pub batch_query: Option<usize>,
    /// So many batches before the last one can be read.
    pub history_batches: u64,
    /// Bytes that changed states may take in memory.
    pub overlay_bytes_max: usize,
    /// Whether events have a time.
    pub has_event_time: bool,
}

impl Setup {
    /// A rule with the limits that users get, in one partition.
    pub fn new(rule: Vec<u8>) -> Self {
        let history_batches = HISTORY_BATCHES_DEFAULT;
        Setup {
            rule,
            limits: Limits::default(),
            partitions: 1,
            parameters: json!({}),
            batch_query: None,
            history_batches,
            overlay_bytes_max: OVERLAY_BYTES_DEFAULT,
            has_event_time: true,
        }
    }

    /// A guest.
    pub fn guest(name: &str) -> Self {
        Setup::new(guest(name))
    }

    /// Opens a host over a new folder.
    pub fn open(self) -> Trial {
        self.open_in(tempfile::tempdir().expect("the folder for temporary files can be written"))
    }

    /// Opens a host over the folder that another trial left.
    pub fn open_in(self, folder: TempDir) -> Trial {
        self.try_open_in(folder).unwrap_or_else(|error| panic!("the folder cannot be used: {error:#}"))
    }

    /// Why a host refuses a folder.
    pub fn refused_in(self, folder: &TempDir) -> String {
        let copy = tempfile::tempdir().expect("the folder for temporary files can be written");
        folder::copy(folder.path(), copy.path());
        format!("{:#}", self.try_open_in(copy).err().expect("the folder cannot be used"))
    }

    fn try_open_in(self, folder: TempDir) -> Result<Trial> {
        let loader = Arc::new(loader(&self.limits));
        let component = Arc::new(loader.load(&self.rule).expect("the rule can be loaded"));
        let (clock, sink) = (Clock::manual(Millis(0)), MemorySink::default());
        let identity = Identity {
            rule: "trial".to_owned(),
            partitions: self.partitions,
            inputs: vec![InputIdentity {
                name: "input".to_owned(),
                key: vec!["/key".to_owned()],
                event_time: self.has_event_time.then(|| ("/at".to_owned(), "epoch-ms".to_owned())),
            }],
            watermark_policy: WatermarkPolicy::Min,
            record_bytes_max: usize::MAX,
            csv_text: Vec::new(),
            // Seeds are made from it, so two trials get the same.
            id: "trial".to_owned(),
        };
        let event_time = self.has_event_time.then(|| ("/at".to_owned(), TimeFormat::EpochMs));
        let extractor = Extractor::new(vec!["/key".to_owned()], event_time).expect("the pointers are right");
        let settings = Settings {
            folder: folder.path().to_owned(),
            identity,
            inputs: vec![InputSettings { extractor, watermark: InputWatermark::default() }],
            initial_state: None,
            parameters: self.parameters.clone(),
            limits: self.limits.clone(),
            batch: ReadLimit { records_max: usize::MAX, bytes_max: self.batch_query.unwrap_or(usize::MAX) },
            threads: 1,
            batch_query: self.batch_query.is_some(),
            history_batches: self.history_batches,
            checkpoint: None,
            overlay_budget: Budget::new(self.overlay_bytes_max),
            twice: true,
            control: Default::default(),
            hosting: Default::default(),
            delivery: Delivery::default(),
        };
        let host =
            Host::open(settings, clock.clone(), Arc::clone(&component), Arc::clone(&loader), Box::new(sink.clone()))?;
        let Setup { partitions, parameters, limits, .. } = self;
        Ok(Trial {
            host,
            component,
            loader,
            parameters,
            limits,
            clock,
            sink,
            folder,
            partitions,
            letters_seen: 0,
            line: 0,
        })
    }
}

/// A rule in a host of its own.
pub struct Trial {
    host: Host,
    pub component: Arc<Component>,
    loader: Arc<Loader>,
    /// The parameters of the next activation.
    pub parameters: Value,
    limits: Limits,
    pub clock: Clock,
    sink: MemorySink,
    folder: TempDir,
    pub partitions: u32,
    letters_seen: usize,
    line: u64,
}

/// What became of one batch.
#[derive(Debug)]
pub struct Batch {
    /// The outputs: partition by partition, in the order of the groups.
    pub outputs: Vec<String>,
    /// The groups that failed, in the same order.
    pub letters: Vec<DeadLetter>,
    pub progress: StateOperatorProgress,
    /// All of the batch's progress.
    pub record: Progress,
}

impl Trial {
    /// Runs one batch of lines.
    pub fn run<L: AsRef<str>>(&mut self, lines: &[L]) -> Batch {
        self.run_with_watermark(lines, None)
    }

    /// Runs one batch of lines in which the watermark has come at least this far.
    pub fn run_with_watermark<L: AsRef<str>>(&mut self, lines: &[L], at_least_ms: Option<i64>) -> Batch {
        let records = self.records(lines);
        let outcome = self.host.run_batch(records, at_least_ms.map(Millis)).expect("no group can stop the host");
        let record = outcome.progress.expect("every batch reports its progress");
        let letters = self.letters().split_off(self.letters_seen);
        self.letters_seen += letters.len();
        let progress = record.state_operators.first().expect("there is one stateful operator").clone();
        Batch { outputs: self.sink.take(), letters, progress, record }
    }

    /// Runs one batch of lines that ends the run, and returns why.
    pub fn fail<L: AsRef<str>>(&mut self, lines: &[L]) -> String {
        let records = self.records(lines);
        format!("{:#}", self.host.run_batch(records, None).err().expect("the batch fails"))
    }

    /// Runs one batch with an event for each key, one second after another.
    pub fn run_keys(&mut self, keys: &[&str]) -> Batch {
        let first = self.line as i64 + 1;
        let lines: Vec<String> = keys.iter().zip(first..).map(|(key, number)| event(key, number * 1000)).collect();
        self.run(&lines)
    }

    /// Activates another version of the rule.
    pub fn activate(&mut self, rule: &[u8], state: StateChoice) -> Result<Swapped> {
        let component = Arc::new(self.loader.load(rule)?);
        let (parameters, limits) = (self.parameters.clone(), self.limits.clone());
        let activation = Activation { component: Arc::clone(&component), parameters, limits, state };
        let swapped = self.host.activate(&activation)?;
        self.component = component;
        Ok(swapped)
    }

    /// What is left of earlier versions.
    pub fn older_rows(&self) -> OlderRows {
        self.host.older_rows()
    }

    /// The plan of the last batch.
    pub fn last_plan(&self) -> Plan {
        self.host.last_plan().expect("a batch has run").clone()
    }

    /// Puts a row in from outside.
    pub fn import_as_is(&mut self, row: &str) {
        let file = tempfile::NamedTempFile::new().expect("the folder for temporary files can be written");
        fs::write(file.path(), format!("{row}\n")).expect("the disk has room");
        imports::add(self.folder.path(), file.path(), true, None).expect("the row is right");
        self.run_source(&mut EmptySource).expect("the import is read");
        self.sink.take();
    }

    /// Runs the host over a source until it is used up.
    pub fn run_source(&mut self, source: &mut dyn Source) -> Result<()> {
        self.host.run(source, Trigger::AvailableNow, &AtomicBool::new(false), &mut BatchOutcome::default())
    }

    fn records<L: AsRef<str>>(&mut self, lines: &[L]) -> RecordBatch {
        let mut records = RecordBatch::default();
        if lines.is_empty() {
            return records;
        }
        let from = Position { offset: self.line, line: self.line };
        for line in lines {
            let start = records.text.len() as u32;
            records.text.extend_from_slice(line.as_ref().as_bytes());
            self.line += 1;
            records.records.push(Record { start, end: records.text.len() as u32, range: 0, line: self.line });
        }
        let to = Position { offset: self.line, line: self.line };
        records.ranges.push(OffsetRange { input: InputId(0), file: FILE.to_owned(), from, to });
        records
    }

    /// The rows of all keys, as `keyfold state ls` shows them.
    pub fn rows(&self) -> BTreeMap<String, Value> {
        let decoder = StateDecoder::new(self.component.description().state_format);
        let mut rows = BTreeMap::new();
        for partition in self.readers() {
            let scanned = partition.scan(|row| {
                let key = String::from_utf8_lossy(&row.key).into_owned();
                rows.insert(key, row_to_json(&row, &decoder, None));
                Ok(())
            });
            scanned.expect("a partition's file can be read while its owner has it open");
        }
        rows
    }

    /// The data folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn letters(&self) -> Vec<DeadLetter> {
        let mut letters = Vec::new();
        for partition in self.readers() {
            let scanned = partition.dead_letters(|batch, letter| {
                letters.push((batch, letter));
                Ok(())
            });
            scanned.expect("a partition's file can be read while its owner has it open");
        }
        letters.sort_by_key(|(batch, _)| *batch);
        letters.into_iter().map(|(_, letter)| letter).collect()
    }

    fn readers(&self) -> impl Iterator<Item = PartitionReader> {
        let open = |partition| PartitionReader::open(self.folder.path(), PartitionId(partition));
        (0..self.partitions).map(move |partition| open(partition).expect("the host made the file"))
    }

    /// Closes the host and hands its folder over.
    pub fn close(self) -> TempDir {
        drop(self.host);
        self.folder
    }
}
