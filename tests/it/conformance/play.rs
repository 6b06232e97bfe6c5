//! [`Play`]: a case on its way through the real host, on a real folder, with a clock that the case moves.

use super::event::Event;
use super::fact::{Add, Case, Restart, RestartWith};
use super::sink::{FAULT, FaultySink, SinkFails};
use super::source::Events;
use super::stage::{Setup, Stage};
use anyhow::{Context, Result, ensure};
use keyfold::clock::Clock;
use keyfold::event::{BatchId, InputId, KeyGroup, Millis, PartitionId};
use keyfold::host::{Host, Observer, Trigger};
use keyfold::imports;
use keyfold::progress::Progress;
use keyfold::state::reader::PartitionReader;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// No step of a fact takes so many batches: a run that does would never end.
const BATCHES_MAX: usize = 500;

/// The file of events that name none.
const EVENTS: &str = "events";

/// A case on its way.
pub struct Play<'a> {
    stage: &'a Stage,
    case: &'a Case,
    setup: Setup,
    folder: TempDir,
    clock: Clock,
    sink: FaultySink,
    source: Events,
    host: Option<Host>,
    batches: Batches,
    letters_seen: usize,
}

/// What came of a run.
pub struct Ran {
    /// The outputs, as JSON.
    pub outputs: Vec<Value>,
    /// The batches, in order.
    pub batches: Vec<Progress>,
    /// The dead letters.
    pub letters: Vec<String>,
}

/// A key's row.
#[derive(Default)]
pub struct Found {
    pub value: Option<Value>,
    pub timeout: Option<i64>,
}

/// The batches of this run. A batch whose delivery failed is reported once more by the next run.
#[derive(Default)]
struct Batches {
    new: Vec<Progress>,
    last: Option<BatchId>,
    /// Set when there are too many.
    stop: Arc<AtomicBool>,
}

impl Observer for Batches {
    fn batch(&mut self, progress: &Progress, _: Option<(u64, u64)>) {
        if self.last.is_none_or(|last| last < progress.batch_id) {
            self.last = Some(progress.batch_id);
            self.new.push(progress.clone());
            if self.new.len() > BATCHES_MAX {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl<'a> Play<'a> {
    /// Opens the host on a new folder, or says what is refused.
    pub fn start(stage: &'a Stage, case: &'a Case, setup: Setup) -> Result<Self> {
        let mut play = Play {
            stage,
            case,
            setup,
            folder: tempfile::tempdir()?,
            clock: Clock::manual(Millis(0)),
            sink: FaultySink::default(),
            source: Events::new(case.input_names().len().max(1)),
            host: None,
            batches: Batches::default(),
            letters_seen: 0,
        };
        play.open()?;
        Ok(play)
    }

    fn open(&mut self) -> Result<()> {
        let sink = Box::new(self.sink.clone());
        let host = self.stage.open(self.case, &self.setup, self.folder.path(), &self.clock, sink)?;
        self.host = Some(host);
        Ok(())
    }

    /// Moves processing time on.
    pub fn set_now(&self, now_ms: i64) {
        self.clock.advance_to(Millis(now_ms));
    }

    /// Closes the host and opens it again on the same folder.
    pub fn restart(&mut self, restart: &Restart) -> Result<()> {
        self.host = None;
        let Restart::With(with) = restart else { return self.open() };
        let RestartWith { rule, parameters, policy, refused } = with.as_ref().clone();
        let before = self.setup.clone();
        self.setup.rule = rule.unwrap_or(self.setup.rule.clone());
        self.setup.parameters = parameters.unwrap_or(self.setup.parameters.clone());
        self.setup.policy = policy.or(self.setup.policy.clone());
        let Some(part) = refused else { return self.open() };
        let refusal = self.open().err().with_context(|| format!("the restart is not refused with '{part}'"))?;
        ensure!(format!("{refusal:#}").contains(&part), "the restart is refused otherwise: {refusal:#}");
        self.setup = before;
        Ok(())
    }

    /// Puts an event where the next run finds it.
    pub fn add(&mut self, add: &Add) -> Result<()> {
        let event = Event::of(add)?;
        let input = self.case.input(event.input.as_deref())?;
        self.source.add(input, event.file.as_deref().unwrap_or(EVENTS), event.text.to_string());
        Ok(())
    }

    /// Puts an event of the one input where the next run finds it.
    pub fn put(&mut self, event: &Value) {
        self.source.add(InputId(0), EVENTS, event.to_string());
    }

    /// Runs until nothing is left to do.
    pub fn run(&mut self) -> Result<Ran> {
        let host = self.host.as_mut().context("the host was not opened")?;
        let stop = Arc::clone(&self.batches.stop);
        host.run(&mut self.source, Trigger::AvailableNow, &stop, &mut self.batches)?;
        ensure!(!stop.load(Ordering::Relaxed), "the run does not end: it had more than {BATCHES_MAX} batches");
        self.ran()
    }

    /// Runs into a failure of the sink, which leaves the folder as a crash at that moment would, and opens the host again.
    pub fn run_into(&mut self, fails: SinkFails) -> Result<()> {
        self.sink.set(Some(fails));
        let host = self.host.as_mut().context("the host was not opened")?;
        let stop = Arc::clone(&self.batches.stop);
        let ran = host.run(&mut self.source, Trigger::AvailableNow, &stop, &mut self.batches);
        // A run without batches delivers nothing and cannot fail.
        if let Err(error) = ran {
            ensure!(format!("{error:#}").contains(FAULT), "the run failed otherwise: {error:#}");
        }
        self.sink.set(None);
        self.sink.take();
        self.restart(&Restart::Same(true))
    }

    fn ran(&mut self) -> Result<Ran> {
        let parse = |line: &String| serde_json::from_str(line).with_context(|| format!("an output is {line}"));
        Ok(Ran {
            outputs: self.sink.take().iter().map(parse).collect::<Result<_>>()?,
            batches: std::mem::take(&mut self.batches.new),
            letters: self.letters()?,
        })
    }

    /// The watermark that the next batch would have.
    pub fn next_watermark(&self) -> Option<Millis> {
        self.host.as_ref().and_then(Host::next_watermark)
    }

    /// Imports rows as they are. The next run takes them.
    pub fn import_as_is(&self, lines: impl Iterator<Item = Value>) -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), lines.map(|line| format!("{line}\n")).collect::<String>())?;
        imports::add(self.folder(), file.path(), true, None).map(|_| ())
    }

    /// The row of a key. The guests write their states as JSON.
    pub fn row(&self, key: &str) -> Result<Found> {
        let partition = KeyGroup::of(key.as_bytes()).partition(self.setup.partitions);
        let Some(row) = PartitionReader::open(self.folder(), partition)?.get(key.as_bytes())? else {
            return Ok(Found::default());
        };
        let value = row.state.map(|(state, _)| serde_json::from_slice(&state)).transpose()?;
        Ok(Found { value, timeout: row.timeout.map(|timeout| timeout.at.0) })
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn letters(&mut self) -> Result<Vec<String>> {
        // Before the first batch there is nothing to read.
        if self.batches.last.is_none() {
            return Ok(Vec::new());
        }
        let mut letters = Vec::new();
        for partition in 0..self.setup.partitions {
            let reader = PartitionReader::open(self.folder(), PartitionId(partition))?;
            reader.dead_letters(|batch, letter| {
                letters.push((batch, partition, format!("{}: {}", letter.reason, letter.message)));
                Ok(())
            })?;
        }
        letters.sort();
        let new = letters.split_off(self.letters_seen.min(letters.len()));
        self.letters_seen += new.len();
        Ok(new.into_iter().map(|(_, _, text)| text).collect())
    }
}
