//! [`Workers`]: the threads that own the partitions. A partition's batches run one after another on its thread.

use crate::event::{BatchId, Millis, PartitionId};
use crate::fault;
use crate::generation::Mark;
use crate::host::{Control, Settings};
use crate::partition::{Partition, PartitionReport, Work};
use crate::state::{Hold, RowCounts};
use anyhow::{Context, Result, anyhow, ensure};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// The threads that own the partitions.
pub struct Workers {
    threads: Vec<Worker>,
    reports: Receiver<Report>,
    partitions: u32,
    at_start: AtStart,
}

/// What the partitions had committed when they were opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtStart {
    /// The first batch that some partition had not committed.
    pub uncommitted: BatchId,
    /// Keys with state or a timeout, of all partitions.
    pub rows: u64,
    /// The same by generation and schema, of each partition.
    pub counts: Vec<RowCounts>,
}

struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

enum Job {
    Run(Work),
    NextDue,
    ExampleOf(Mark),
}

/// What a thread reports of one of its partitions.
enum Report {
    Done(PartitionId, BatchId, Result<Box<PartitionReport>>),
    NextDue(Result<[Option<Millis>; 2]>),
    Example(Result<Option<Vec<u8>>>),
}

impl Workers {
    /// Opens all partitions and starts the threads, or one for each partition when there are fewer.
    pub fn start(settings: &Settings, hold: &Hold) -> Result<Self> {
        let Settings { folder, history_batches, overlay_budget, control, .. } = settings;
        let partitions = settings.identity.partitions;
        let threads = settings.threads.clamp(1, partitions as usize);
        let (report, reports) = channel();
        let mut opened: Vec<Vec<Owned>> = (0..threads).map(|_| Vec::new()).collect();
        let mut at_start = AtStart { uncommitted: BatchId(u64::MAX), rows: 0, counts: Vec::new() };
        for id in 0..partitions {
            let mut partition = Partition::open(folder, PartitionId(id), partitions, *history_batches, overlay_budget)?;
            partition.hold_with(hold.clone());
            let next = partition.committed().map_or(0, |batch| batch.0 + 1);
            at_start.uncommitted = at_start.uncommitted.min(BatchId(next));
            at_start.rows += partition.rows();
            at_start.counts.push(partition.counts().clone());
            opened[id as usize % threads].push(Owned { partition, has_failed: false });
        }
        let mut workers = Vec::new();
        for (number, own) in opened.into_iter().enumerate() {
            let (jobs, received) = channel();
            let report = report.clone();
            let control = Arc::clone(control);
            let thread = std::thread::Builder::new()
                .name(format!("partitions-{number}"))
                .spawn(move || work(own, &received, &report, &control))
                .context("failed to start a thread")?;
            workers.push(Worker { jobs: Some(jobs), thread: Some(thread) });
        }
        Ok(Workers { threads: workers, reports, partitions, at_start })
    }

    /// What the partitions had committed when they were opened.
    pub fn at_start(&self) -> &AtStart {
        &self.at_start
    }

    /// Hands a batch to all partitions.
    pub fn run(&self, work: &Work) -> Result<()> {
        self.threads.iter().try_for_each(|worker| worker.send(Job::Run(work.clone())))
    }

    /// The next report of a partition that finished a batch.
    pub fn next_report(&self) -> Result<(PartitionId, BatchId, PartitionReport)> {
        match self.reports.recv().context("all partition threads have ended")? {
            Report::Done(partition, batch, report) => Ok((partition, batch, *report?)),
            Report::NextDue(_) | Report::Example(_) => {
                Err(anyhow!("a partition answered a question that was not asked"))
            }
        }
    }

    /// A report of a partition that finished a batch, without waiting for one.
    pub fn report(&self) -> Result<Option<(PartitionId, BatchId, PartitionReport)>> {
        match self.reports.try_recv() {
            Ok(Report::Done(partition, batch, report)) => Ok(Some((partition, batch, *report?))),
            Ok(Report::NextDue(_) | Report::Example(_)) => {
                Err(anyhow!("a partition answered a question that was not asked"))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(anyhow!("all partition threads have ended")),
        }
    }

    /// The earliest timeout of all partitions on each clock: processing time, event time. No batch may be running.
    pub fn next_due(&self) -> Result<[Option<Millis>; 2]> {
        self.threads.iter().try_for_each(|worker| worker.send(Job::NextDue))?;
        let mut earliest = [None, None];
        for _ in 0..self.partitions {
            match self.reports.recv().context("all partition threads have ended")? {
                Report::NextDue(due) => {
                    for (earliest, due) in earliest.iter_mut().zip(due?) {
                        *earliest = [*earliest, due].into_iter().flatten().min();
                    }
                }
                Report::Done(..) | Report::Example(_) => return Err(anyhow!("a batch was still running")),
            }
        }
        Ok(earliest)
    }

    /// A key that has a state of this generation and schema, when one has. No batch may be running.
    pub fn example_of(&self, mark: Mark) -> Result<Option<Vec<u8>>> {
        self.threads.iter().try_for_each(|worker| worker.send(Job::ExampleOf(mark)))?;
        let mut example = None;
        for _ in 0..self.partitions {
            match self.reports.recv().context("all partition threads have ended")? {
                Report::Example(found) => example = example.or(found?),
                Report::Done(..) | Report::NextDue(_) => return Err(anyhow!("a batch was still running")),
            }
        }
        Ok(example)
    }
}

impl Drop for Workers {
    /// Waits for the threads, so that their files are closed when the data folder is unlocked.
    fn drop(&mut self) {
        for worker in &mut self.threads {
            worker.jobs = None;
        }
        for worker in &mut self.threads {
            if let Some(thread) = worker.thread.take() {
                // A thread that panicked has reported that already.
                let _ = thread.join();
            }
        }
    }
}

impl Worker {
    fn send(&self, job: Job) -> Result<()> {
        let jobs = self.jobs.as_ref().expect("jobs are closed only when the workers are dropped");
        jobs.send(job).map_err(|_| anyhow!("a partition thread has ended"))
    }
}

/// A partition, and whether a batch failed in it. Then it takes no further one: the next batch is already waiting when one
/// fails, and a partition that skipped a batch would never run it again.
struct Owned {
    partition: Partition,
    has_failed: bool,
}

fn work(mut partitions: Vec<Owned>, jobs: &Receiver<Job>, reports: &Sender<Report>, control: &Control) {
    while let Ok(job) = jobs.recv() {
        for owned in &mut partitions {
            let report = match &job {
                Job::Run(work) => Report::Done(owned.partition.id(), work.plan.batch, owned.run(work).map(Box::new)),
                Job::NextDue => Report::NextDue(caught(|| owned.partition.next_due())),
                Job::ExampleOf(mark) => Report::Example(caught(|| owned.partition.example_of(*mark))),
            };
            if reports.send(report).is_err() {
                return;
            }
            // Whoever asks for the next due time waits for the answers alone.
            if matches!(job, Job::Run(_)) {
                control.notify();
            }
            fault::point("partition-done");
        }
    }
    for owned in partitions {
        fault::point("partition-close");
        drop(owned);
    }
}

impl Owned {
    fn run(&mut self, work: &Work) -> Result<PartitionReport> {
        ensure!(!self.has_failed, "an earlier batch failed in partition {}", self.partition.id());
        let report = caught(|| self.partition.run(work));
        self.has_failed = report.is_err();
        report
    }
}

/// A panic is a fault of ours: it is reported and ends the rule, instead of leaving the host waiting for a report.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(anyhow!("a fault in the host: {}", text.unwrap_or("a panic without a message")))
    })
}
