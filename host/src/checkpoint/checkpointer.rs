//! [`Checkpointer`]: the checkpoint of a host that runs: begun or continued when the host opens, told of what batches do, and asked
//! whether it lags too far behind.

use super::after_checkpoint::AfterCheckpoint;
use super::beginning::Beginning;
use super::epochs;
use super::layout::{Folder, Object};
use super::ledger::{Ledger, Reached};
use super::object::{self, Commit, Metadata, Offsets};
use super::refusal::Refusal;
use super::settings::{CheckpointSettings, ReleaseMode};
use super::snapshots::Snapshots;
use super::store::{CheckpointStore, Created};
use super::uploader::Uploader;
use super::writer::Writer;
use crate::clock::Clock;
use crate::event::{BatchId, PartitionId};
use crate::plan::{Identity, Plan};
use crate::release::Release;
use crate::state::shipping::{PlanReader, ShippingReader};
use crate::state::{PlanLog, Shipped};
use crate::workers::caught;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tracing::warn;

/// The checkpoint of a host that runs.
pub struct Checkpointer {
    settings: CheckpointSettings,
    folder: PathBuf,
    partitions: u32,
    epoch: u64,
    ledger: Arc<Ledger>,
    threads: Vec<JoinHandle<()>>,
    /// What the batches before did is not kept: snapshots come first.
    needs_beginning: bool,
    /// Whether it was said that the source is held back.
    is_holding_back: AtomicBool,
}

/// The newest commit of a checkpoint that is whole.
struct Newest {
    batch: BatchId,
    rows: Vec<u64>,
}

impl Checkpointer {
    /// Refuses to begin a new data folder with a checkpoint that another one has written.
    pub fn check_new_folder(store: &CheckpointStore, folder: &Path) -> Result<()> {
        if PlanLog::identity(folder)?.is_some() || store.read(&Object::Metadata)?.is_none() {
            return Ok(());
        }
        bail!(Refusal(format!(
            "there is no data folder {} yet, and the checkpoint {url} has a rule's state: restore it with `keyfold restore {url} --data \
             {}`, or go on with it in place of the host that wrote it with --take-over. To begin anew, use another URL",
            folder.display(),
            folder.display(),
            url = store.url()
        )))
    }

    /// Begins or continues the checkpoint of a data folder whose partitions are open, and begins the next epoch.
    pub fn open(
        settings: &CheckpointSettings,
        folder: &Path,
        identity: &Identity,
        plan_log: &PlanLog,
        clock: &Clock,
    ) -> Result<Self> {
        let store = &settings.store;
        let better = check_metadata(store, folder, identity)?;
        let epoch = epochs::begin(store, plan_log, folder, clock)?;
        if let Some(better) = better {
            store.overwrite(&Object::Metadata, better)?;
        }
        let partitions = (0..identity.partitions).map(PartitionId);
        let open = || partitions.clone().map(|partition| ShippingReader::open(folder, partition));
        let readers = open().collect::<Result<Vec<_>>>()?;
        let newest = newest(store, identity.partitions)?;
        check_history(store, plan_log, newest.as_ref())?;
        let shipped = newest.as_ref().map(|newest| newest.batch);
        let next = shipped.map_or(0, |shipped| shipped.0 + 1);
        let whole_from = readers.iter().map(ShippingReader::whole_from).collect::<Result<Vec<_>>>()?;
        let committed = readers.iter().map(ShippingReader::committed).collect::<Result<Vec<_>>>()?;
        let ledger = Arc::new(Ledger::default());
        ledger.shipped(shipped);
        ledger.committed(committed.into_iter().min().flatten());
        ledger.delivered(plan_log.delivered()?);
        let needs_beginning = whole_from.iter().any(|from| from.0 > next);
        if !needs_beginning {
            ledger.has_begun();
        }
        let writer = || Writer::new(Arc::clone(store), folder.to_owned(), epoch, clock.clone());
        let uploader = Uploader {
            ledger: Arc::clone(&ledger),
            writer: writer(),
            plans: PlanReader::open(folder)?,
            partitions: readers,
            next_plan: next,
            next,
            rows: newest.map_or_else(|| vec![0; identity.partitions as usize], |newest| newest.rows),
            cargo: None,
        };
        let snapshots = Snapshots {
            ledger: Arc::clone(&ledger),
            writer: writer(),
            partitions: identity.partitions,
            every: settings.snapshot_batches,
            retained: settings.retained,
        };
        let threads = vec![
            start("uploader", &ledger, move || uploader.run())?,
            start("snapshots", &ledger, move || snapshots.run())?,
        ];
        Ok(Checkpointer {
            settings: settings.clone(),
            folder: folder.to_owned(),
            partitions: identity.partitions,
            epoch,
            ledger,
            threads,
            needs_beginning,
            is_holding_back: AtomicBool::new(false),
        })
    }

    /// When outputs may leave; none when the checkpoint has no say in it.
    pub fn release(&self) -> Option<Arc<dyn Release>> {
        match self.settings.release {
            ReleaseMode::AfterCommit => None,
            ReleaseMode::AfterCheckpoint => Some(Arc::new(AfterCheckpoint {
                ledger: Arc::clone(&self.ledger),
                store: Arc::clone(&self.settings.store),
                epoch: self.epoch,
            })),
        }
    }

    /// Fails when no further batch will ever be shipped, because another host has taken over.
    pub fn check(&self) -> Result<()> {
        self.ledger.check()
    }

    /// How far batches lie in the checkpoint.
    pub fn shipped(&self) -> Shipped {
        // Before the beginning is there, nothing may be deleted that may have to go there.
        Shipped::UpTo(self.ledger.reached().shipped)
    }

    /// A plan is written.
    pub fn planned(&self, batch: BatchId) -> Result<()> {
        self.ledger.planned(batch);
        self.ledger.check()
    }

    /// All partitions have committed a batch.
    pub fn committed(&self, batch: BatchId) {
        self.ledger.committed(Some(batch));
    }

    /// Outputs up to this batch are delivered.
    pub fn delivered(&self, batch: Option<BatchId>) {
        self.ledger.delivered(batch);
    }

    /// No batch is running: when what the batches before did is not kept, the checkpoint begins now. Unless a run was stopped before
    /// it had finished what a crash interrupted: then the next one begins it.
    pub fn begin(&mut self, plan_log: &PlanLog) -> Result<()> {
        let Reached { planned, committed, delivered, .. } = self.ledger.reached();
        let Some(batch) = committed.filter(|_| self.needs_beginning && committed == planned) else { return Ok(()) };
        let taken = Beginning::take(&self.folder, self.partitions, batch, delivered, &plan_log.positions()?)?;
        self.needs_beginning = false;
        self.ledger.begin(taken);
        Ok(())
    }

    /// Whether nothing is uploaded before [`Checkpointer::begin`].
    pub fn needs_beginning(&self) -> bool {
        self.needs_beginning
    }

    /// Whether so many batches wait that no further one should be planned. Says so once. Fails when none will be shipped any more.
    pub fn holds_back(&self) -> Result<bool> {
        self.ledger.check()?;
        let Reached { planned, shipped, .. } = self.ledger.reached();
        let waiting = planned.map_or(0, |batch| batch.0 + 1) - shipped.min(planned).map_or(0, |batch| batch.0 + 1);
        let holds_back = waiting > self.settings.lag_batches;
        if holds_back != self.is_holding_back.swap(holds_back, Ordering::Relaxed) && holds_back {
            warn!(
                "{waiting} batches wait for the checkpoint {}, and checkpoint-lag-batches is {}: nothing is read until it has them",
                self.settings.store.url(),
                self.settings.lag_batches
            );
        }
        Ok(holds_back)
    }

    /// Waits until everything that is committed is in the checkpoint; once `stop` is set, only as long as the store answers.
    pub fn finish(&self, stop: &AtomicBool) -> Result<()> {
        let left = self.ledger.finish(stop)?;
        if left > 0 {
            warn!(
                "{left} batches are not in the checkpoint {} yet: the next run brings them there",
                self.settings.store.url()
            );
        }
        Ok(())
    }

    /// Whether the checkpoint was taken over, and the host before is to be fenced off.
    pub fn is_fence_missing(&self, plan_log: &PlanLog) -> Result<bool> {
        epochs::is_fence_missing(plan_log)
    }

    /// Writes the plan that keeps the host before from going on, or finds the one that this host wrote in its place.
    pub fn fence(&self, fence: &Plan) -> Result<Option<Plan>> {
        super::fence::write(&self.settings.store, self.epoch, &self.folder, fence)
    }

    /// The fence is written, and in the plan log.
    pub fn fence_written(&self, plan_log: &PlanLog) -> Result<()> {
        epochs::fence_written(plan_log)
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.ledger.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn start(name: &str, ledger: &Arc<Ledger>, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let ledger = Arc::clone(ledger);
    let work = move || {
        let worked = caught(|| {
            work();
            Ok(())
        });
        if let Err(error) = worked {
            ledger.fail(&error);
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work).context("failed to start a thread")
}

/// The checkpoint is that of this data folder, or becomes it. Returns what should be there in place of what is.
fn check_metadata(store: &CheckpointStore, folder: &Path, identity: &Identity) -> Result<Option<Bytes>> {
    let object = Object::Metadata;
    let description = PlanLog::description(folder)?.context("the data folder does not say which rule it belongs to")?;
    let ours = Metadata { identity: identity.clone(), description: serde_json::to_value(description)? };
    let bytes = object::to_text(&ours)?;
    let found = match store.create(&object, bytes.clone())? {
        Created::Present(found) if found != bytes => found,
        _ => return Ok(None),
    };
    ensure!(
        !object::is_of_other_version(&found),
        "the checkpoint {} was written by a later version of the host: use that one",
        store.url()
    );
    if let Ok(found) = object::of_text::<Metadata>(&object.name(), &found) {
        ensure!(
            found.identity.id == identity.id,
            Refusal(format!(
                "the checkpoint {} holds another history, of the rule {} in another data folder: use another URL with --checkpoint",
                store.url(),
                found.identity.rule
            ))
        );
        found.identity.check_same(identity).with_context(|| format!("the checkpoint {} is another's", store.url()))?;
    }
    // It is damaged, or the rule says something else of itself since it was replaced.
    Ok(Some(bytes))
}

/// The newest commit that is whole.
fn newest(store: &CheckpointStore, partitions: u32) -> Result<Option<Newest>> {
    for listed in store.list(Folder::Commits)?.into_iter().rev() {
        let Object::Commit(batch) = listed.object else { continue };
        let name = listed.object.name();
        let Some(found) = store.read(&listed.object)? else { continue };
        match object::of_text::<Commit>(&name, &found) {
            Ok(commit) if commit.partitions.len() == partitions as usize => {
                let rows = commit.partitions.iter().map(|partition| partition.rows).collect();
                return Ok(Some(Newest { batch, rows }));
            }
            Ok(_) => bail!("{name} has another number of partitions than the data folder"),
            Err(error) => {
                ensure!(!object::is_of_other_version(&found), "{error:#}: use the host that wrote it");
                warn!("{error:#}: it is written anew");
            }
        }
    }
    Ok(None)
}

/// The data folder has done what the checkpoint says, and has not gone back since.
fn check_history(store: &CheckpointStore, plan_log: &PlanLog, newest: Option<&Newest>) -> Result<()> {
    let Some(Newest { batch, .. }) = newest else { return Ok(()) };
    let last = plan_log.last()?.map(|plan| plan.batch);
    ensure!(
        last >= Some(*batch),
        Refusal(format!(
            "the data folder ends with batch {}, and the checkpoint {} with batch {batch}: the folder is an old copy. Restore a new one",
            last.map_or_else(|| "none".to_owned(), |last| last.to_string()),
            store.url()
        ))
    );
    let object = Object::Offsets(*batch);
    let Some(found) = store.read(&object)? else { return Ok(()) };
    let Ok(Offsets { plan, .. }) = object::of_text::<Offsets>(&object.name(), &found) else { return Ok(()) };
    let ours = plan_log.from(*batch)?.into_iter().next();
    ensure!(
        ours.is_none_or(|ours| ours.batch != *batch || ours == plan),
        Refusal(format!(
            "batch {batch} of the checkpoint {} is not the one of the data folder: it holds another history. Use another URL with \
             --checkpoint",
            store.url()
        ))
    );
    Ok(())
}
