//! Epochs: which host a checkpoint belongs to. Each start of a host creates the next one; whoever finds a later one than its own has
//! been replaced, and stops. Nobody's clock matters.

use super::layout::{Folder, Object};
use super::object::{self, Epoch};
use super::refusal::Refusal;
use super::store::{CheckpointStore, Created};
use crate::clock::Clock;
use crate::state::PlanLog;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a data folder knows of its own epochs. It is written before the epoch is created: a crash between the two must not make a
/// host take its own epoch for another's.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Claims {
    /// The newest of them.
    epochs: Vec<Claim>,
    /// The checkpoint was taken over, and the fence against the host before is not written yet.
    is_fence_missing: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    number: u64,
    nonce: String,
}

/// Own epochs that are remembered: the last one, and those that a crash may have left half made.
const CLAIMS_KEPT: usize = 8;

/// The newest epoch of a checkpoint; none when no host has written there.
pub fn newest(store: &CheckpointStore) -> Result<Option<u64>> {
    let found = store.list(Folder::Epochs)?.into_iter().rev().map(|listed| listed.object);
    Ok(found.filter_map(|object| if let Object::Epoch(epoch) = object { Some(epoch) } else { None }).next())
}

/// Fails when a host has begun a later epoch.
pub fn check(store: &CheckpointStore, own: u64) -> Result<()> {
    match newest(store)? {
        Some(newest) if newest > own => bail!(taken_over(store, newest)),
        _ => Ok(()),
    }
}

/// What a host says that has been replaced.
pub(super) fn taken_over(store: &CheckpointStore, epoch: u64) -> Refusal {
    Refusal(format!(
        "another host has taken over the checkpoint {}: epoch {epoch}{}. This one must not go on: its data folder stays as it is, \
         and what it has beyond the checkpoint was or will be done again by the other",
        store.url(),
        begun_by(store, epoch)
    ))
}

/// Begins the next epoch for a data folder whose host was the last to write here.
pub fn begin(store: &CheckpointStore, plan_log: &PlanLog, folder: &Path, clock: &Clock) -> Result<u64> {
    let claims = Claims::read(plan_log)?;
    let last = newest(store)?;
    if let Some(last) = last
        && !claims.is_own(store, last)?
    {
        if claims.epochs.is_empty() {
            bail!(Refusal(format!(
                "the checkpoint {} belongs to another data folder: epoch {last}{}. When that host has stopped for good, go on from here \
                 with --take-over",
                store.url(),
                begun_by(store, last)
            )));
        }
        bail!(taken_over(store, last));
    }
    match create(store, plan_log, claims, last.map_or(1, |last| last + 1), folder, clock)? {
        Some(epoch) => Ok(epoch),
        None => bail!(taken_over(store, newest(store)?.unwrap_or(0))),
    }
}

/// Begins the next epoch whoever had the last one.
pub(super) fn seize(store: &CheckpointStore, folder: &Path, clock: &Clock) -> Result<Seized> {
    loop {
        let number = newest(store)?.map_or(1, |last| last + 1);
        let epoch = Epoch::new(folder.display().to_string(), clock);
        if is_created(store, number, &epoch)? {
            return Ok(Seized(Claim { number, nonce: epoch.nonce }));
        }
    }
}

/// An epoch that was begun before there was a data folder to write it down in.
#[derive(Debug)]
pub(super) struct Seized(Claim);

impl Seized {
    /// Writes it down, and that the host before is still to be fenced off.
    pub fn keep(self, plan_log: &PlanLog) -> Result<()> {
        let mut claims = Claims::read(plan_log)?;
        claims.epochs.push(self.0);
        claims.is_fence_missing = true;
        claims.write(plan_log)
    }
}

/// Whether the checkpoint was taken over, and the fence is not written.
pub(super) fn is_fence_missing(plan_log: &PlanLog) -> Result<bool> {
    Ok(Claims::read(plan_log)?.is_fence_missing)
}

/// The fence is written.
pub(super) fn fence_written(plan_log: &PlanLog) -> Result<()> {
    Claims { is_fence_missing: false, ..Claims::read(plan_log)? }.write(plan_log)
}

fn create(
    store: &CheckpointStore,
    plan_log: &PlanLog,
    mut claims: Claims,
    number: u64,
    folder: &Path,
    clock: &Clock,
) -> Result<Option<u64>> {
    let epoch = Epoch::new(folder.display().to_string(), clock);
    claims.epochs.push(Claim { number, nonce: epoch.nonce.clone() });
    claims.write(plan_log)?;
    // Looked at again: a host that slept between looking and creating may have created an epoch that others had left behind.
    let is_newest = is_created(store, number, &epoch)? && newest(store)? == Some(number);
    Ok(is_newest.then_some(number))
}

/// Whether this epoch is there now and is this one.
fn is_created(store: &CheckpointStore, number: u64, epoch: &Epoch) -> Result<bool> {
    let bytes = object::to_text(epoch)?;
    Ok(match store.create(&Object::Epoch(number), bytes.clone())? {
        Created::Written => true,
        Created::Present(found) => found == bytes,
    })
}

fn begun_by(store: &CheckpointStore, epoch: u64) -> String {
    let object = Object::Epoch(epoch);
    let found = store.read(&object).ok().flatten();
    match found.and_then(|bytes| object::of_text::<Epoch>(&object.name(), &bytes).ok()) {
        Some(Epoch { machine, process, folder, .. }) => {
            format!(" was begun by process {process} on {machine} with the data folder {folder}")
        }
        None => String::new(),
    }
}

impl Claims {
    fn read(plan_log: &PlanLog) -> Result<Self> {
        let found = plan_log.claims()?;
        let claims = found.map(|text| serde_json::from_str(&text)).transpose();
        Ok(claims.context("failed to read the epochs of the data folder")?.unwrap_or_default())
    }

    fn write(&mut self, plan_log: &PlanLog) -> Result<()> {
        self.epochs.drain(..self.epochs.len().saturating_sub(CLAIMS_KEPT));
        plan_log.set_claims(&serde_json::to_string(self)?)
    }

    fn is_own(&self, store: &CheckpointStore, number: u64) -> Result<bool> {
        if self.epochs.iter().all(|claim| claim.number != number) {
            return Ok(false);
        }
        let object = Object::Epoch(number);
        let found = store.read(&object)?.with_context(|| format!("{} is gone again", object.name()))?;
        let Epoch { nonce, .. } = object::of_text(&object.name(), &found)?;
        Ok(self.epochs.contains(&Claim { number, nonce }))
    }
}
