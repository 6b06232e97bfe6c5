//! Which version of the rule runs: what it says of itself, and an activation that no plan names yet.

use super::{LAST_PLAN, PlanLog, read_plans};
use crate::description::Description;
use crate::plan::{Activated, Plan};
use crate::state::{clean, hold, meta_table, settings};
use anyhow::{Context, Result};
use rusqlite::Connection;
use std::path::Path;

pub(super) const META_DESCRIPTION: &str = "description";
/// An activation that came after the last plan; what it says holds until a plan says more.
const META_ACTIVATED: &str = "activated";

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

    /// The last plan of a data folder and the activation that was written last; none when there is no plan log.
    pub fn last_version(folder: &Path) -> Result<Option<(Option<Plan>, Option<Activated>)>> {
        let path = folder.join("plan.db");
        let connection = if path.exists() { settings::open_read_only(&path)? } else { None };
        let Some(connection) = connection else { return Ok(None) };
        let activated: Option<String> = meta_table::get(&connection, META_ACTIVATED)?;
        let activated = activated.map(|text| serde_json::from_str(&text).context("failed to read the last activation"));
        Ok(Some((read_plans(&connection, LAST_PLAN, 0)?.pop(), activated.transpose()?)))
    }
}

fn set_description(&self, description: &Description) -> Result<()> {
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

    /// The digest of the version that a data folder runs: that of the last plan, or of the activation after it. None before the first.
    pub fn version(folder: &Path) -> Result<Option<String>> {
        let path = folder.join("plan.db");
        let connection = if path.exists() { settings::open_read_only(&path)? } else { None };
        let Some(connection) = connection else { return Ok(None) };
        let last = read_plans(&connection, LAST_PLAN, 0)?.pop();
        let activated: Option<String> = meta_table::get(&connection, META_ACTIVATED)?;
        let activated: Option<Activated> = activated.map(|text| serde_json::from_str(&text)).transpose()?;
        let after_last = activated.filter(|activated| activated.after == last.as_ref().map(|last| last.batch));
        Ok(after_last.map(|activated| activated.digest).or(last.map(|last| last.digest)))
    }
}

fn set_description(connection: &Connection, description: &Description) -> Result<()> {
    // The schema of the parameters can be a megabyte, and says nothing about states.
    let kept = Description { parameters: serde_json::Value::Null, ..description.clone() };
    meta_table::set(connection, META_DESCRIPTION, serde_json::to_string(&kept)?)
}
