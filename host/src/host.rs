//! [`Host`]: one rule over its inputs: plans batches, hands them to the partitions, delivers their outputs.

mod batch_query;
mod breaker;
mod checkpoint;
mod control;
mod deliverer;
mod deliveries;
mod delivery;
mod generations;
mod hosting;
mod planning;
mod recovery;
mod settings;
mod swap;
mod undelivered;
mod waiting;

use crate::checkpoint::Checkpointer;
use crate::clock::{Clock, Stopwatch};
use crate::envelope::Envelope;
use crate::event::{BatchId, Millis, RecordBatch};
use crate::fault;
use crate::folder_lock::FolderLock;
use crate::imports::{self, Imports};
use crate::kept_components::KeptComponents;
use crate::partition::{PartitionReport, Work};
use crate::plan::{Plan, Settled};
use crate::progress::{BatchTimes, Progress, new_run_id};
use crate::sink::Sink;
use crate::source::{EmptySource, ReadStatus, Source};
use crate::state::{Hold, PlanLog, split};
use crate::wasm::{Component, component::Loader};
use crate::watermark::Watermarks;
use crate::workers::Workers;
use anyhow::{Context, Result, ensure};
use deliveries::Deliveries;
use generations::Generations;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use waiting::Idle;

pub use breaker::Retry;
pub use control::{Control, Replaced, Requested};
pub use deliveries::{Delivery, OUTBOX_BYTES_MAX_DEFAULT, Outbox};
pub use delivery::BatchOutcome;
pub use generations::OlderRows;
pub use hosting::Hosting;
pub use settings::{InputSettings, Settings};
pub use swap::{Activation, StateChoice, Swapped};

/// Batches that run while the next one is read. More would only take memory: partitions run them one after another.
const BATCHES_IN_FLIGHT_MAX: usize = 2;
/// How often a source that has nothing is asked again.
const POLL: Duration = Duration::from_millis(50);

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
    /// A batch is done and its outputs are delivered. `bytes` is how far the source had come when it was committed.
    fn batch(&mut self, progress: &Progress, bytes: Option<(u64, u64)>);

    /// All partitions have committed a batch, and nothing of it is delivered yet. One report for each partition.
    fn committed(&mut self, _: &Plan, _: &[PartitionReport]) {}

    /// So much waits for the sink.
    fn outbox(&mut self, _: &Outbox) {}

    /// So much is left of what versions before the one that runs have written. Told after each batch that had some.
    fn older_rows(&mut self, _: &OlderRows) {}
}

/// One rule over its inputs.
pub struct Host {
    settings: Settings,
    clock: Clock,
    component: Arc<Component>,
    components: KeptComponents,
    plan_log: PlanLog,
    workers: Workers,
    deliveries: Deliveries,
    imports: Imports,
    watermarks: Watermarks,
    id: String,
    run_id: String,
    last: Option<Plan>,
    /// Which generation is written, and what becomes of the rows of earlier ones.
    generations: Generations,
    delivered: Option<BatchId>,
    /// The first batch that is not committed by all partitions.
    uncommitted: BatchId,
    /// When the batch that was committed last was triggered.
    last_trigger: Option<Millis>,
    in_flight: VecDeque<InFlight>,
    /// The earliest timeouts, as long as no batch has run since they were asked for.
    dues: Cell<Option<[Option<Millis>; 2]>>,
    /// What is written around outputs.
    envelope: Option<Arc<Envelope>>,
    /// Set while the input is used up after the last batch: the next one drops late events by the watermark that was reached, as if
    /// a batch without data had come between them. Spark runs that batch.
    settled: Option<Settled>,
    /// When the batch query began: all of its passes have the same processing time.
    query_time: Option<Millis>,
    /// Bytes and records of the last read: the next one has room for as many.
    room: (usize, usize),
    /// None when there is no checkpoint. It ends before the folder is unlocked.
    checkpoint: Option<Checkpointer>,
    /// Whether a run has ended with an error: batches may be on their way, and only a new host knows what became of them.
    has_failed: bool,
    /// What writers do when the disk is full.
    hold: Hold,
    /// Held as long as the host lives, so that no second host writes the folder.
    _lock: FolderLock,
}

/// A batch that the partitions work on.
struct InFlight {
    work: Work,
    reports: Vec<Option<PartitionReport>>,
    times: BatchTimes,
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
        settings.check_event_time(component.description())?;
        ensure!(settings.inputs.len() == settings.identity.inputs.len(), "each input needs its settings");
        if let Some(checkpoint) = &settings.checkpoint {
            Checkpointer::check_new_folder(&checkpoint.store, &settings.folder)?;
        }
        fs::create_dir_all(&settings.folder)
            .with_context(|| format!("failed to make the data folder {}", settings.folder.display()))?;
        fault::point("folder-made");
        let lock = FolderLock::take(&settings.folder)?;
        split::finish_locked(&settings.folder, &lock)?;
        let hold = Hold::default();
        let mut plan_log = PlanLog::open(&settings.folder, &settings.identity)?;
        plan_log.hold_with(hold.clone());
        plan_log.set_description(component.description())?;
        let identity = PlanLog::identity(&settings.folder)?.context("the plan log was opened just now")?;
        let workers = Workers::start(&settings, &hold)?;
        let checkpoint = checkpoint::open(&settings, &mut plan_log, &identity, &clock)?;
        let components = KeptComponents::new(&settings.folder, loader);
        let last = plan_log.last()?;
        let delivered = plan_log.delivered()?;
        let settled =
            plan_log.settled()?.filter(|settled| last.as_ref().is_some_and(|last| last.batch == settled.batch));
        if let Some(path) = &settings.initial_state {
            imports::add_initial(&settings.folder, path, component.description().state_format, last.is_some())?;
        }
        let mut delivery = settings.delivery.clone();
        if let Some(release) = checkpoint.as_ref().and_then(Checkpointer::release) {
            delivery.release = release;
        }
        let partitions = settings.identity.partitions;
        let deliveries =
            Deliveries::start(&settings.folder, partitions, sink, &delivery, delivered, &settings.control)?;
        let envelope = Envelope::new(&identity.id, &identity.rule);
        let envelope = settings.hosting.envelope.then(|| Arc::new(envelope));
        let of_inputs = settings.inputs.iter().map(|input| input.watermark).collect();
        let after_last = plan_log.activated()?.filter(|activated| {
            // One that is told of again is not what runs when the host is opened with another version.
            activated.after == last.as_ref().map(|last| last.batch) && activated.digest == component.digest()
        });
        let is_committed = last.as_ref().is_none_or(|last| last.batch < workers.at_start().uncommitted);
        let mut generations = Generations::new(last.as_ref(), after_last.as_ref(), workers.at_start().counts.clone());
        if is_committed {
            generations.prune();
        }
        let mut host = Host {
            imports: Imports::new(&settings.folder),
            watermarks: Watermarks::new(settings.identity.watermark_policy, of_inputs),
            settings,
            clock,
            component,
            components,
            plan_log,
            uncommitted: workers.at_start().uncommitted,
            workers,
            deliveries,
            id: identity.id,
            run_id: new_run_id(),
            last,
            generations,
            delivered,
            last_trigger: None,
            in_flight: VecDeque::new(),
            dues: Cell::new(None),
            envelope,
            settled,
            query_time: None,
            room: (0, 0),
            checkpoint,
            has_failed: false,
            hold,
            _lock: lock,
        };
        host.fence()?;
        Ok(host)
    }

    /// Makes batches from a source until the trigger or `stop` ends it. Everything planned is committed before it returns, and
    /// delivered unless it was stopped: then some batches may wait in the outbox, and the next run delivers them.
    pub fn run(
        &mut self,
        source: &mut dyn Source,
        trigger: Trigger,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        ensure!(!self.has_failed, "the host has failed before: open it again");
        self.has_failed = true;
        self.deliveries.resume();
        let hold = self.hold.clone();
        let ran = hold.unless(stop, || self.run_to_the_end(source, trigger, stop, observer));
        if ran.is_err() {
            // What is committed may still leave, as far as the sink takes it now. The failure that came first is the one to tell.
            let _ = self.finish_delivery(&AtomicBool::new(true), observer);
        }
        self.has_failed = ran.is_err();
        if ran.is_err()
            && let Some(requested) = self.settings.control.take_activation()
        {
            requested.reply(Err(swap::failed_before_activation()));
        }
        ran
    }

    fn run_to_the_end(
        &mut self,
        source: &mut dyn Source,
        trigger: Trigger,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        self.recover(source, stop, observer)?;
        self.components.keep(&self.component)?;
        if self.settings.batch_query {
            return self.run_batch_query(source, stop, observer);
        }
        let mut idle = Idle::default();
        loop {
            self.hold_back(stop, observer)?;
            // A rule that is stopped takes an activation first: it is opened for that alone.
            if self.settings.control.has_activation() {
                self.activate_what_was_asked(source, observer)?;
                continue;
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if self.is_over_outputs(source, stop, observer)? {
                continue;
            }
            if self.is_held_back(stop)? {
                self.settle_all(source, observer)?;
                self.take_news(observer)?;
                continue;
            }
            let mut times = BatchTimes::start(self.clock.now());
            let mut records = RecordBatch::default();
            let status = self.read(source, &mut records)?;
            times.read();
            if !records.ranges.is_empty() {
                idle.end();
                self.begin(records, times, None)?;
                self.settle(source, observer, BATCHES_IN_FLIGHT_MAX)?;
            } else if status != ReadStatus::More {
                if self.wait_for_batches(source, observer)? {
                    continue;
                }
                self.settle_all(source, observer)?;
                self.settle_watermark();
                if !self.settings.hosting.is_told {
                    self.plan_log.show_progress(self.delivered)?;
                }
                match self.next_step(status)? {
                    Step::Batch => {
                        idle.end();
                        self.begin(RecordBatch::default(), times, None)?;
                        self.settle_all(source, observer)?;
                    }
                    Step::Wait if !self.wait_for_work(&mut idle, stop, observer)? => break,
                    Step::Wait => {}
                    Step::End => break,
                }
            }
            if let Trigger::Interval(interval) = trigger {
                self.settle_all(source, observer)?;
                self.plan_log.show_progress(self.delivered)?;
                self.pause(interval.saturating_sub(times.elapsed()), stop, observer)?;
            }
        }
        self.settle_all(source, observer)?;
        self.finish_delivery(stop, observer)?;
        self.finish_checkpoint(stop)
    }

    /// Runs one batch with these records, and a watermark that has come at least this far. For scenarios.
    pub fn run_batch(&mut self, records: RecordBatch, watermark_at_least: Option<Millis>) -> Result<BatchOutcome> {
        self.components.keep(&self.component)?;
        self.begin(records, BatchTimes::start(self.clock.now()), watermark_at_least)?;
        let mut outcome = BatchOutcome::default();
        self.settle_all(&mut EmptySource, &mut outcome)?;
        self.finish_delivery(&AtomicBool::new(false), &mut outcome)?;
        Ok(outcome)
    }

    /// Whether a batch without events would call a key whose timeout is due.
    pub fn has_due(&self, watermark: Option<Millis>) -> Result<bool> {
        let [processing_time, event_time] = self.next_due()?;
        let now = self.now();
        Ok(processing_time.is_some_and(|due| due < now)
            || event_time.zip(watermark).is_some_and(|(due, watermark)| due < watermark))
    }

    /// Reads the next batch: states that wait to be imported first, and events only with the last of them.
    fn read(&mut self, source: &mut dyn Source, records: &mut RecordBatch) -> Result<ReadStatus> {
        if self.imports.read(self.settings.batch, records)? == ReadStatus::More {
            self.watermarks.forget_quiet();
            return Ok(ReadStatus::More);
        }
        let turn = self.settings.hosting.cpu.turn();
        let computing = turn.begin();
        source.want(self.event_members(&self.component, self.generations.older())?.as_deref())?;
        // A little more: batches differ, and text that grows out of its room is copied.
        records.text.reserve(self.room.0 + self.room.0 / 8);
        records.records.reserve(self.room.1);
        let status = source.read(self.settings.batch, records)?;
        self.room = (records.text.len(), records.records.len());
        drop(computing);
        fault::point("read");
        let now = self.now();
        self.watermarks.observe(records, now);
        Ok(status)
    }

    fn next_step(&self, status: ReadStatus) -> Result<Step> {
        if self.has_due(self.next_watermark())? {
            return Ok(Step::Batch);
        }
        if self.generations.has_to_sweep() {
            return Ok(Step::Batch);
        }
        // Whether more is waited for is the source's to say: standard input that pauses has not ended.
        Ok(if status == ReadStatus::Ended { Step::End } else { Step::Wait })
    }

    /// The earliest timeouts that this rule can be called for. Timeouts on a clock that it does not use, left by a version
    /// that did, wait for one that does.
    fn next_due(&self) -> Result<[Option<Millis>; 2]> {
        let [processing_time, event_time] = match self.dues.get() {
            Some(dues) => dues,
            None => self.workers.next_due()?,
        };
        self.dues.set(Some([processing_time, event_time]));
        let mut kinds = vec![self.component.description().timeout];
        kinds.extend(self.drained(self.generations.older())?.iter().map(|drained| drained.description().timeout));
        let processing_time = processing_time.filter(|_| kinds.iter().any(|kind| kind.allows_processing_time()));
        Ok([processing_time, event_time.filter(|_| kinds.iter().any(|kind| kind.allows_event_time()))])
    }
}

enum Step {
    /// A batch without events: timeouts are due, or rows of earlier generations are to be swept.
    Batch,
    Wait,
    End,
}

/// Waits in small steps, so that a request to stop is seen.
fn wait(pause: Duration, stop: &AtomicBool) {
    let waited = Stopwatch::start();
    while waited.elapsed() < pause && !stop.load(Ordering::Relaxed) {
        std::thread::sleep((pause - waited.elapsed().min(pause)).min(POLL));
    }
}
