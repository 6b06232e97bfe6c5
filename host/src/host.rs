//! [`Host`]: one rule over one source: plans batches, hands them to the partitions, delivers their outputs.

use crate::clock::{Clock, Stopwatch};
use crate::event::{BatchId, Millis, PartitionId, RecordBatch};
use crate::extract::Extractor;
use crate::input::BatchInput;
use crate::kept_components::KeptComponents;
use crate::limits::Limits;
use crate::partition::{PartitionReport, Work};
use crate::plan::{Identity, Plan};
use crate::progress::{BatchRun, Progress};
use crate::sink::Sink;
use crate::source::{EmptySource, ReadLimit, ReadStatus, Source};
use crate::state::{OutputBlock, PlanLog};
use crate::wasm::{Component, component::Loader};
use crate::workers::Workers;
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Batches that run while the next one is read. More would only take memory: partitions run them one after another.
const BATCHES_IN_FLIGHT_MAX: usize = 2;
/// How often a source that has nothing is asked again.
const POLL: Duration = Duration::from_millis(50);

/// What a host is made of.
pub struct Settings {
    /// The data folder.
    pub folder: PathBuf,
    /// What the folder belongs to; its id is used only when the folder is new.
    pub identity: Identity,
    /// Finds key and time.
    pub extractor: Extractor,
    /// How far the watermark stays behind the greatest event time.
    pub watermark_delay: Duration,
    /// The rule's parameters.
    pub parameters: serde_json::Value,
    /// What the rule may use.
    pub limits: Limits,
    /// How much one batch reads.
    pub batch: ReadLimit,
    /// Threads for the partitions.
    pub threads: usize,
    /// So many batches before the last one stay readable.
    pub history_batches: u64,
}

/// When batches are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Until the input is used up and nothing is due: Spark's `AvailableNow`.
    AvailableNow,
    /// For ever, whenever there is something to do.
    Follow,
    /// For ever, at most one batch in each interval: Spark's `ProcessingTime`.
    Interval(Duration),
}

/// Sees every batch that was committed by all partitions.
pub trait Observer {
    /// A batch is done and its outputs are delivered. `bytes` is how far the source has come.
    fn batch(&mut self, progress: &Progress, bytes: Option<(u64, u64)>);
}

/// One rule over one source.
pub struct Host {
    settings: Settings,
    clock: Clock,
    component: Arc<Component>,
    components: KeptComponents,
    sink: Box<dyn Sink>,
    plan_log: PlanLog,
    workers: Workers,
    id: String,
    last: Option<Plan>,
    delivered: Option<BatchId>,
    in_flight: VecDeque<InFlight>,
    /// Held as long as the host lives, so that no second host writes the folder.
    _lock: File,
}

/// A batch that the partitions work on.
struct InFlight {
    work: Work,
    reports: Vec<Option<PartitionReport>>,
    started: Stopwatch,
    read_ms: u64,
    plan_ms: u64,
}

impl Host {
    /// Opens or makes a data folder and starts the partitions.
    pub fn open(
        settings: Settings,
        clock: Clock,
        component: Arc<Component>,
        loader: Arc<Loader>,
        sink: Box<dyn Sink>,
    ) -> Result<Self> {
        check_component(&component, &settings)?;
        fs::create_dir_all(&settings.folder)
            .with_context(|| format!("failed to make the data folder {}", settings.folder.display()))?;
        let lock = lock(&settings.folder)?;
        let plan_log = PlanLog::open(&settings.folder, &settings.identity)?;
        plan_log.set_description(component.description())?;
        let id = PlanLog::identity(&settings.folder)?.map_or_else(String::new, |identity| identity.id);
        let partitions = settings.identity.partitions;
        let workers = Workers::start(&settings.folder, partitions, settings.threads, settings.history_batches)?;
        let components = KeptComponents::new(&settings.folder, loader);
        let last = plan_log.last()?;
        let delivered = plan_log.delivered()?;
        Ok(Host {
            settings,
            clock,
            component,
            components,
            sink,
            plan_log,
            workers,
            id,
            last,
            delivered,
            in_flight: VecDeque::new(),
            _lock: lock,
        })
    }

    /// Finishes what a crash interrupted: runs planned batches again and delivers outputs that are not known to be delivered.
    /// Then lets the source continue after what was planned.
    pub fn recover(&mut self, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<()> {
        source.seek(self.plan_log.positions()?)?;
        let committed = self.workers.committed_at_start().to_vec();
        let after = |batch: Option<BatchId>| batch.map_or(0, |batch| batch.0 + 1);
        let uncommitted = committed.iter().map(|&batch| after(batch)).min().unwrap_or(0);
        let first = uncommitted.min(after(self.delivered));
        for plan in self.plan_log.from(BatchId(first))? {
            let started = Stopwatch::start();
            let mut records = RecordBatch::default();
            if plan.batch.0 >= uncommitted {
                source
                    .replay(&plan.ranges, &mut records)
                    .with_context(|| format!("failed to read the events of batch {} again", plan.batch))?;
            }
            let component = self.components.get(&plan.digest, &self.component)?;
            // The commit forgets outputs that are delivered. Were that not known before it, a second crash could leave a
            // batch of which only some partitions still have the outputs.
            self.plan_log.set_delivered(self.delivered)?;
            let input = BatchInput::new(records, &self.settings.extractor, self.settings.identity.partitions);
            let read_ms = started.elapsed_ms();
            self.start(plan, component, input, InFlightTimes { started, read_ms, plan_ms: 0 })?;
            self.settle_all(source, observer)?;
        }
        Ok(())
    }

    /// Makes batches from a source until the trigger or `stop` ends it. Everything planned is finished before it returns.
    pub fn run(
        &mut self,
        source: &mut dyn Source,
        trigger: Trigger,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        self.recover(source, observer)?;
        self.components.keep(&self.component)?;
        while !stop.load(Ordering::Relaxed) {
            let started = Stopwatch::start();
            let mut records = RecordBatch::default();
            let status = source.read(self.settings.batch, &mut records)?;
            if !records.ranges.is_empty() {
                self.begin(records, started, None)?;
                self.settle(source, observer, BATCHES_IN_FLIGHT_MAX)?;
            } else if status != ReadStatus::More {
                self.settle_all(source, observer)?;
                match self.next_step(status)? {
                    Step::Timeouts => {
                        self.begin(RecordBatch::default(), started, None)?;
                        self.settle_all(source, observer)?;
                    }
                    Step::Wait => wait(POLL, stop),
                    Step::End => break,
                }
            }
            if let Trigger::Interval(interval) = trigger {
                self.settle_all(source, observer)?;
                wait(interval.saturating_sub(started.elapsed()), stop);
            }
        }
        self.settle_all(source, observer)?;
        self.plan_log.set_delivered(self.delivered)
    }

    /// Runs one batch with these records, and a watermark that has come at least this far. For scenarios.
    pub fn run_batch(&mut self, records: RecordBatch, watermark_at_least: Option<Millis>) -> Result<BatchOutcome> {
        self.components.keep(&self.component)?;
        self.begin(records, Stopwatch::start(), watermark_at_least)?;
        let mut outcome = BatchOutcome::default();
        self.settle_all(&mut EmptySource, &mut outcome)?;
        Ok(outcome)
    }

    /// Whether a batch without events would call a key whose timeout is due.
    pub fn has_due(&self, watermark: Option<Millis>) -> Result<bool> {
        let [processing_time, event_time] = self.next_due()?;
        let now = self.now();
        Ok(processing_time.is_some_and(|due| due < now)
            || event_time.zip(watermark).is_some_and(|(due, watermark)| due < watermark))
    }

    /// The watermark that the next batch would have.
    pub fn next_watermark(&self) -> Option<Millis> {
        self.settings.identity.event_time.as_ref()?;
        let Some(last) = &self.last else { return Some(Millis(0)) };
        let delay_ms = i64::try_from(self.settings.watermark_delay.as_millis()).unwrap_or(i64::MAX);
        let moved = last.event_time_max.map(|max| Millis(max.0.saturating_sub(delay_ms)));
        Some(last.watermark.into_iter().chain(moved).chain([Millis(0)]).max().unwrap_or_default())
    }

    fn now(&self) -> Millis {
        // A clock that was set back must not take processing time back: timeouts would fire again.
        self.clock.now().max(self.last.as_ref().map_or(Millis(i64::MIN), |plan| plan.time))
    }

    fn next_step(&self, status: ReadStatus) -> Result<Step> {
        if self.has_due(self.next_watermark())? {
            return Ok(Step::Timeouts);
        }
        // Whether more is waited for is the source's to say: standard input that pauses has not ended.
        Ok(if status == ReadStatus::Ended { Step::End } else { Step::Wait })
    }

    /// The earliest timeouts that this rule can be called for. Timeouts on a clock that it does not use, left by a version
    /// that did, wait for one that does.
    fn next_due(&self) -> Result<[Option<Millis>; 2]> {
        let [processing_time, event_time] = self.workers.next_due()?;
        let kind = self.component.description().timeout;
        Ok([processing_time.filter(|_| kind.allows_processing_time()), event_time.filter(|_| kind.allows_event_time())])
    }

    fn begin(&mut self, records: RecordBatch, started: Stopwatch, watermark_at_least: Option<Millis>) -> Result<()> {
        let partitions = self.settings.identity.partitions;
        let input = BatchInput::new(records, &self.settings.extractor, partitions);
        let read_ms = started.elapsed_ms();
        let plan = self.plan(&input.records, input.event_time_max_ms().map(Millis), watermark_at_least);
        self.plan_log.append(&plan, self.delivered)?;
        let plan_ms = started.elapsed_ms() - read_ms;
        let component = Arc::clone(&self.component);
        self.start(plan, component, input, InFlightTimes { started, read_ms, plan_ms })
    }

    fn start(&mut self, plan: Plan, component: Arc<Component>, input: BatchInput, times: InFlightTimes) -> Result<()> {
        if self.last.as_ref().is_none_or(|last| last.batch < plan.batch) {
            self.last = Some(plan.clone());
        }
        let work = Work { plan: Arc::new(plan), component, input: Arc::new(input), delivered: self.delivered };
        self.workers.run(&work)?;
        let reports = vec![None; self.settings.identity.partitions as usize];
        let InFlightTimes { started, read_ms, plan_ms } = times;
        self.in_flight.push_back(InFlight { work, reports, started, read_ms, plan_ms });
        Ok(())
    }

    fn plan(&self, records: &RecordBatch, event_time_max: Option<Millis>, watermark_at_least: Option<Millis>) -> Plan {
        let batch = BatchId(self.last.as_ref().map_or(0, |last| last.batch.0 + 1));
        let watermark = self.next_watermark().map(|watermark| watermark.max(watermark_at_least.unwrap_or(watermark)));
        let before = self.last.as_ref().and_then(|last| last.event_time_max);
        let has_event_time = self.settings.identity.event_time.is_some();
        Plan {
            batch,
            ranges: records.ranges.clone(),
            time: self.now(),
            watermark,
            late_watermark: match &self.last {
                Some(last) => last.watermark,
                None => watermark.map(|_| Millis(0)),
            },
            event_time_max: before.into_iter().chain(event_time_max).max().filter(|_| has_event_time),
            seed: format!("{:032x}", xxh3_128_with_seed(self.id.as_bytes(), batch.0)),
            digest: self.component.digest().to_owned(),
            parameters: self.settings.parameters.to_string(),
            limits: self.settings.limits.clone(),
        }
    }

    fn settle_all(&mut self, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<()> {
        self.settle(source, observer, 1)
    }

    /// Waits until fewer than `in_flight` batches run, delivering those that are done.
    fn settle(&mut self, source: &mut dyn Source, observer: &mut dyn Observer, in_flight: usize) -> Result<()> {
        while self.in_flight.len() >= in_flight.max(1) {
            let (PartitionId(partition), batch, report) = self.workers.next_report()?;
            let first = self.in_flight.front().map_or(0, |first| first.work.plan.batch.0);
            let place = (batch.0 - first) as usize;
            self.in_flight[place].reports[partition as usize] = Some(report);
            while self.in_flight.front().is_some_and(|first| first.reports.iter().all(Option::is_some)) {
                let done = self.in_flight.pop_front().expect("it was there just now");
                self.deliver(done, source, observer)?;
            }
        }
        Ok(())
    }

    fn deliver(&mut self, done: InFlight, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<()> {
        let batch = done.work.plan.batch;
        let mut reports: Vec<PartitionReport> = done.reports.into_iter().flatten().collect();
        if self.delivered.is_none_or(|delivered| delivered < batch) {
            let blocks: Vec<OutputBlock> =
                reports.iter_mut().map(|report| std::mem::take(&mut report.outputs)).collect();
            self.sink
                .deliver(batch, &blocks)
                .with_context(|| format!("failed to deliver the outputs of batch {batch}"))?;
            for (report, block) in reports.iter_mut().zip(blocks) {
                report.outputs.outputs = block.outputs;
            }
            self.delivered = Some(batch);
        }
        self.plan_log.trim(batch)?;
        let run = BatchRun {
            id: &self.id,
            rule: &self.component.description().name,
            partitions: self.settings.identity.partitions,
            plan: &done.work.plan,
            rows: done.work.input.records_read(),
            source: source.description(),
            sink: self.sink.description(),
            read_ms: done.read_ms,
            plan_ms: done.plan_ms,
            duration_ms: done.started.elapsed_ms(),
        };
        let progress = Progress::new(run, &reports);
        observer.batch(&progress, source.progress_bytes());
        Ok(())
    }
}

struct InFlightTimes {
    started: Stopwatch,
    read_ms: u64,
    plan_ms: u64,
}

enum Step {
    Timeouts,
    Wait,
    End,
}

/// What [`Host::run_batch`] did.
#[derive(Default)]
pub struct BatchOutcome {
    /// The progress of the batch.
    pub progress: Option<Progress>,
}

impl Observer for BatchOutcome {
    fn batch(&mut self, progress: &Progress, _: Option<(u64, u64)>) {
        self.progress = Some(progress.clone());
    }
}

fn check_component(component: &Component, settings: &Settings) -> Result<()> {
    let needs_event_time = component.description().timeout == crate::description::TimeoutKind::EventTime;
    ensure!(
        !needs_event_time || settings.identity.event_time.is_some(),
        "the rule sets timeouts in event time and the input has none: name its field with --event-time"
    );
    Ok(())
}

fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("failed to make {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("the data folder {} is in use by another process: stop that one first", folder.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("failed to lock {}", path.display())),
    }
}

/// Waits in small steps, so that a request to stop is seen.
fn wait(pause: Duration, stop: &AtomicBool) {
    let waited = Stopwatch::start();
    while waited.elapsed() < pause && !stop.load(Ordering::Relaxed) {
        std::thread::sleep((pause - waited.elapsed().min(pause)).min(POLL));
    }
}
