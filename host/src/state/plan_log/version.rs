//! Which version of the rule runs: what it says of itself, and an activation that no plan names yet.

use super::PlanLog;
use crate::description::Description;
use crate::event::BatchId;
use crate::generation::Generation;
use crate::plan::{Activated, Plan};
use crate::state::{clean, hold, meta_table, settings};
use anyhow::{Context, Result};
use rusqlite::Connection;
use std::path::Path;

pub(super) const META_DESCRIPTION: &str = "description";
/// An activation that came after the last plan; what it says holds until a plan says more.
const META_ACTIVATED: &str = "activated";

/// What the next batch runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextRun {
    /// The component.
    pub digest: String,
    /// The generation of the rows that it writes.
    pub generation: Generation,
    /// The first batch that runs with it, of those whose plans are kept.
    pub since: BatchId,
}

impl PlanLog {
    /// Keeps what the rule says of itself, so that its states can be read without it.
    pub fn set_description(&self, description: &Description) -> Result<()> {
        let write = || -> Result<()> {
            let transaction = self.connection.unchecked_transaction()?;
            set_description(&transaction, description)?;
            clean::clear(&transaction)?;
            Ok(transaction.commit()?)
        };
        write().map_err(|error| hold::ended_by_sync(&self.path, error))
    }

    /// Writes an activation down, with what its version says of itself, before any batch runs with it.
    pub fn set_activated(&mut self, activated: &Activated, description: &Description) -> Result<()> {
        self.write(|transaction| {
            set_description(transaction, description)?;
            meta_table::set(transaction, META_ACTIVATED, serde_json::to_string(activated)?)
        })
        .context("failed to write the activation")
    }

    /// The activation that was written last.
    pub fn activated(&self) -> Result<Option<Activated>> {
        let found: Option<String> = meta_table::get(&self.connection, META_ACTIVATED)?;
        found.map(|text| serde_json::from_str(&text).context("failed to read the last activation")).transpose()
    }

    /// What the rule of a data folder says of itself, without the schema of its parameters.
    pub fn description(folder: &Path) -> Result<Option<Description>> {
        let Some(connection) = settings::open_read_only(&folder.join("plan.db"))? else { return Ok(None) };
        let found: Option<String> = meta_table::get(&connection, META_DESCRIPTION)?;
        found.map(|text| serde_json::from_str(&text).context("failed to read the rule's description")).transpose()
    }

    /// What the next batch of a data folder runs with, as its plans and an activation after them say; none when there is neither.
    pub fn running(folder: &Path) -> Result<Option<NextRun>> {
        let path = folder.join("plan.db");
        if !path.exists() {
            return Ok(None);
        }
        let Some(connection) = settings::open_read_only(&path)? else { return Ok(None) };
        let mut statement = connection.prepare("SELECT plan FROM plan ORDER BY batch DESC")?;
        let mut rows = statement.query([])?;
        let mut runs: Option<NextRun> = None;
        let mut last = None;
        while let Some(row) = rows.next()? {
            let plan: Plan = serde_json::from_str(row.get_ref(0)?.as_str()?).context("failed to read a plan")?;
            last.get_or_insert(plan.batch);
            let run = runs.get_or_insert(NextRun {
                digest: plan.digest.clone(),
                generation: plan.generation,
                since: plan.batch,
            });
            if run.digest != plan.digest || run.generation != plan.generation {
                break;
            }
            run.since = plan.batch;
        }
        let activated: Option<String> = meta_table::get(&connection, META_ACTIVATED)?;
        let activated = activated.map(|text| serde_json::from_str::<Activated>(&text)).transpose()?;
        Ok(match activated.filter(|activated| activated.after == last) {
            Some(Activated { digest, generation, .. }) => {
                Some(NextRun { digest, generation, since: BatchId(last.map_or(0, |last| last.0 + 1)) })
            }
            None => runs,
        })
    }
}

fn set_description(connection: &Connection, description: &Description) -> Result<()> {
    // The schema of the parameters can be a megabyte, and says nothing about states.
    let kept = Description { parameters: serde_json::Value::Null, ..description.clone() };
    meta_table::set(connection, META_DESCRIPTION, serde_json::to_string(&kept)?)
}
