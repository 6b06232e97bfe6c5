//! [`Activation`]: another version of a rule, and what becomes of the states that earlier versions wrote.

use super::generations::OlderRows;
use super::{Host, InFlight, Observer};
use crate::event::{BatchId, InputId};
use crate::fault;
use crate::generation::{Drained, Generation, Mark, Older, Owner, Owners, Treatment};
use crate::limits::Limits;
use crate::plan::Activated;
use crate::source::Source;
use crate::state::RowCounts;
use crate::wasm::Component;
use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Another version of a rule, or the same one with other parameters or limits.
pub struct Activation {
    /// Its code.
    pub component: Arc<Component>,
    /// Its parameters.
    pub parameters: serde_json::Value,
    /// What it may use.
    pub limits: Limits,
    /// What becomes of the states that are there.
    pub state: StateChoice,
}

/// What becomes of the states that earlier versions wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateChoice {
    /// The new version reads them as they are. Refused when there is a schema that it does not read.
    Keep,
    /// The new version rewrites them: each when its key is called, the others little by little.
    Migrate,
    /// They are forgotten, and their timeouts with them.
    Fresh,
    /// Keys that have one go on with the version that wrote it until it is gone; other keys begin with the new version.
    Drain,
}

/// An activation that has taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swapped {
    /// The first batch that runs with it.
    pub batch: BatchId,
    /// The generation of the rows that it writes.
    pub generation: Generation,
    /// Keys with state that an earlier version wrote and that are still to be migrated, forgotten or drained, as far as batches are
    /// committed.
    pub rows_left: u64,
}

/// More versions than these are never drained at the same time: each takes memory in every batch.
const DRAINED_MAX: usize = 4;

impl Host {
    /// Runs another version from the next batch on, when somebody asked for one. Batches that run go on meanwhile with the version that
    /// they were planned with, unless what they leave decides about the activation.
    pub(super) fn activate_what_was_asked(
        &mut self,
        source: &mut dyn Source,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let Some(requested) = self.settings.control.take_activation() else { return Ok(()) };
        if !self.foresees(&requested.activation)
            && let Err(error) = self.settle_all(source, observer)
        {
            requested.reply(Err(failed_before_activation()));
            return Err(error);
        }
        fault::point("activation-begin");
        let swapped = self.activate_next(&requested.activation);
        if let Err(error) = &swapped {
            tracing::warn!("the version {} was not activated: {error:#}", requested.activation.component.digest());
        }
        requested.reply(swapped);
        fault::point("activation-told");
        Ok(())
    }

    /// Runs another version from the next batch on. Everything that was planned must be committed: while the host runs, others ask for
    /// this through its [`Control`](super::Control).
    ///
    /// Until it returns, nothing has changed: a version that is refused leaves the one that runs.
    pub fn activate(&mut self, activation: &Activation) -> Result<Swapped> {
        ensure!(
            self.uncommitted == self.next_batch(),
            "batch {} is not committed: run the host first",
            self.uncommitted
        );
        self.activate_next(activation)
    }

    /// Whether an activation can be decided before the batches that run are committed. Of the rows that they will leave it is known
    /// which version writes them, as long as nothing is imported, swept or drained, and that is enough when the new version reads
    /// whatever there may be. A refusal is always about rows that are there.
    fn foresees(&self, activation: &Activation) -> bool {
        let imports = |running: &InFlight| running.work.plan.ranges.iter().any(|range| range.input == InputId::IMPORTS);
        let readable = &activation.component.description().readable_schemas;
        let is_read = |(mark, _): (Mark, u64)| mark.schema.is_none_or(|schema| readable.contains(&schema));
        self.in_flight.is_empty()
            || self.generations.older().is_empty()
                && !self.in_flight.iter().any(imports)
                && (activation.state != StateChoice::Keep || self.counts_to_come().iter().all(is_read))
    }

    /// The rows of each kind, with at least one of each that the batches that run may write.
    fn counts_to_come(&self) -> RowCounts {
        let mut counts = self.generations.all_counts();
        for InFlight { work, .. } in &self.in_flight {
            let schema = Some(work.component.description().state_schema);
            counts.add(Mark { generation: work.plan.generation, schema });
        }
        counts
    }

    fn activate_next(&mut self, activation: &Activation) -> Result<Swapped> {
        let Activation { component, parameters, limits, state } = activation;
        let description = component.description();
        self.settings.check_event_time(description)?;
        let counts = self.counts_to_come();
        let (generation, older) = match state {
            StateChoice::Keep => (self.generations.current(), self.kept(component, &counts)?),
            begun => (next_generation(self.generations.current(), &counts)?, self.begun(*begun, component, &counts)?),
        };
        self.components.keep(component)?;
        let activated = Activated {
            after: self.last.as_ref().map(|last| last.batch),
            digest: component.digest().to_owned(),
            generation,
            // A sweep that was under way begins anew when the rows may have got another treatment.
            sweeps: *state != StateChoice::Keep || self.generations.sweep().is_some(),
            older,
        };
        self.plan_log.set_activated(&activated, description)?;
        fault::point("activation-written");
        self.components.hold(&self.component);
        self.component = Arc::clone(component);
        self.settings.parameters = parameters.clone();
        self.settings.limits = limits.clone();
        self.generations.activate(&activated);
        self.let_go_of_components();
        Ok(Swapped { batch: self.next_batch(), generation, rows_left: self.generations.left().total() })
    }

    /// What is left of earlier generations.
    pub fn older_rows(&self) -> OlderRows {
        self.generations.left()
    }

    /// Components that nothing is drained by are not needed in memory.
    pub(super) fn let_go_of_components(&self) {
        let older = self.generations.older();
        self.components.let_go(|digest| crate::generation::drained(older).any(|drained| drained.digest == digest));
    }

    /// What becomes of earlier generations when the states are kept. The version must be able to read all that it gets.
    fn kept(&self, component: &Component, counts: &RowCounts) -> Result<Vec<Older>> {
        let mut older = self.generations.older().to_vec();
        if !component.has_migration() {
            older.retain(|older| older.treatment != Treatment::Migrate);
        }
        let owners = Owners::of(&older);
        let is_read = |mark: Mark| owners.owner(mark.generation) == Owner::Current;
        self.check_readable(component, counts.iter().filter(|(mark, _)| is_read(*mark)))?;
        Ok(older)
    }

    /// What becomes of all rows when a generation begins.
    fn begun(&self, state: StateChoice, component: &Component, counts: &RowCounts) -> Result<Vec<Older>> {
        let present: BTreeSet<Generation> = counts.iter().map(|(mark, _)| mark.generation).collect();
        let is_forgotten = |older: &&Older| older.treatment == Treatment::Forget;
        let mut older = match state {
            StateChoice::Keep | StateChoice::Fresh => Vec::new(),
            // What counts as absent does not come back.
            StateChoice::Migrate => self.generations.older().iter().filter(is_forgotten).cloned().collect(),
            StateChoice::Drain => self.drained_so_far(component, counts)?,
        };
        let treatment = match state {
            StateChoice::Migrate => {
                ensure!(
                    component.has_migration(),
                    "the version {} exports no migration: build it with one, or activate it with keep, fresh or drain",
                    component.digest()
                );
                Treatment::Migrate
            }
            StateChoice::Keep | StateChoice::Fresh => Treatment::Forget,
            StateChoice::Drain => Treatment::Drain(Drained {
                digest: self.component.digest().to_owned(),
                parameters: self.settings.parameters.to_string(),
                limits: self.settings.limits.clone(),
            }),
        };
        let is_said = |generation: &Generation| older.iter().any(|older| older.generations.contains(generation));
        let left: BTreeSet<Generation> = match state {
            // What waits to be migrated is left to the new version, which reads it.
            StateChoice::Drain => {
                let waits = self.generations.older().iter().filter(|older| older.treatment == Treatment::Migrate);
                let waiting: BTreeSet<Generation> = waits.flat_map(|older| older.generations.clone()).collect();
                present.difference(&waiting).filter(|generation| !is_said(generation)).copied().collect()
            }
            _ => present.into_iter().filter(|generation| !is_said(generation)).collect(),
        };
        if !left.is_empty() {
            older.push(Older { generations: left.into_iter().collect(), treatment });
        }
        Ok(older)
    }

    /// What was forgotten and drained before stays so when another version is drained.
    fn drained_so_far(&self, component: &Component, counts: &RowCounts) -> Result<Vec<Older>> {
        let (migrating, older): (Vec<Older>, Vec<Older>) =
            self.generations.older().iter().cloned().partition(|older| older.treatment == Treatment::Migrate);
        let waits = |mark: Mark| migrating.iter().any(|older| older.generations.contains(&mark.generation));
        self.check_readable(component, counts.iter().filter(|(mark, _)| waits(*mark)))
            .context("states still wait to be migrated")?;
        let drained = crate::generation::drained(&older).count();
        ensure!(
            drained < DRAINED_MAX,
            "{drained} versions are drained already: wait until one of them has no keys left"
        );
        Ok(older)
    }

    /// Refuses a version that does not read all of these.
    fn check_readable(&self, component: &Component, rows: impl Iterator<Item = (Mark, u64)>) -> Result<()> {
        let readable = &component.description().readable_schemas;
        let unread = |(mark, _): &(Mark, u64)| mark.schema.is_some_and(|schema| !readable.contains(&schema));
        let unread: Vec<(Mark, u64)> = rows.filter(unread).collect();
        let Some((mark, _)) = unread.first() else { return Ok(()) };
        let found: Vec<String> = unread
            .iter()
            .map(|(mark, rows)| format!("{rows} states of schema {}", mark.schema.unwrap_or_default()))
            .collect();
        let key = self.workers.example_of(*mark)?.unwrap_or_default();
        bail!(
            "the version {} reads the schemas {readable:?}, and there are {}, such as that of the key '{}': activate it with \
             migrate, fresh or drain",
            component.digest(),
            found.join(" and "),
            String::from_utf8_lossy(&key)
        );
    }
}

/// What whoever asked for an activation is told when it will not take effect.
pub(super) fn failed_before_activation() -> Error {
    anyhow!("the run failed before the activation took effect")
}

/// The next generation that no row is of.
fn next_generation(current: Generation, counts: &RowCounts) -> Result<Generation> {
    let after = (1..=u8::MAX).map(|step| Generation(current.0.wrapping_add(step)));
    let free = after.into_iter().find(|generation| counts.of_generation(*generation) == 0);
    free.context("there are states of 256 generations: migrate them to one, or begin afresh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_that_has_no_rows_any_more_is_used_again() {
        let mut counts = RowCounts::default();
        assert_eq!(next_generation(Generation(254), &counts).unwrap(), Generation(255));
        counts.add(Mark { generation: Generation(255), schema: Some(1) });
        counts.add(Mark { generation: Generation(0), schema: None });
        assert_eq!(next_generation(Generation(254), &counts).unwrap(), Generation(1));
        (0..=u8::MAX).for_each(|number| counts.add(Mark { generation: Generation(number), schema: Some(1) }));
        let error = next_generation(Generation(254), &counts).unwrap_err().to_string();
        assert!(error.contains("256 generations"), "{error}");
    }
}
