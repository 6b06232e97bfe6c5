//! [`PlanLog`]: what each batch will read and under which clocks, written and synced before the batch runs.
//!
//! A batch that is run again after a crash sees the same events, time, watermark, seed and component, and so gives the same
//! bytes. It is Spark's offset log, with what Spark leaves to chance pinned as well.

use super::{meta_table, settings};
use crate::description::Description;
use crate::event::{BatchId, OffsetRange, Position};
use crate::plan::{Identity, Plan};
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::path::Path;

const SCHEMA: &str = "
    -- One row for each batch that was planned.
    CREATE TABLE plan (batch INTEGER PRIMARY KEY, plan TEXT NOT NULL) STRICT;
    -- How far each file was read by all plans together.
    CREATE TABLE position (file TEXT PRIMARY KEY, offset INTEGER NOT NULL, line INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

const META_IDENTITY: &str = "identity";
const META_DELIVERED: &str = "delivered";
const META_DESCRIPTION: &str = "description";

/// Plans are kept for as many batches as Spark keeps its offsets, for people who look back.
const PLANS_KEPT: u64 = 100;

/// The plan log of one rule.
pub struct PlanLog(Connection);

impl PlanLog {
    /// Opens or makes the log, and checks that it belongs to the rule that is to run.
    pub fn open(folder: &Path, identity: &Identity) -> Result<Self> {
        let connection = settings::open(&folder.join("plan.db"), &[meta_table::SCHEMA, SCHEMA])?;
        match meta_table::get::<String>(&connection, META_IDENTITY)? {
            None => meta_table::set(&connection, META_IDENTITY, serde_json::to_string(identity)?)?,
            Some(found) => {
                let found: Identity = serde_json::from_str(&found).context("failed to read the plan log's identity")?;
                found
                    .check_same(identity)
                    .with_context(|| format!("the data folder {} cannot be used", folder.display()))?;
            }
        }
        Ok(PlanLog(connection))
    }

    /// The identity of the rule in a data folder; none when there is no plan log.
    pub fn identity(folder: &Path) -> Result<Option<Identity>> {
        let path = folder.join("plan.db");
        if !path.exists() {
            return Ok(None);
        }
        let Some(connection) = settings::open_read_only(&path)? else { return Ok(None) };
        let found: Option<String> = meta_table::get(&connection, META_IDENTITY)?;
        found.map(|text| serde_json::from_str(&text).context("failed to read the plan log's identity")).transpose()
    }

    /// Keeps what the rule says of itself, so that its states can be read without it.
    pub fn set_description(&self, description: &Description) -> Result<()> {
        // The schema of the parameters can be a megabyte, and says nothing about states.
        let kept = Description { parameters: serde_json::Value::Null, ..description.clone() };
        meta_table::set(&self.0, META_DESCRIPTION, serde_json::to_string(&kept)?)
    }

    /// What the rule of a data folder says of itself, without the schema of its parameters.
    pub fn description(folder: &Path) -> Result<Option<Description>> {
        let Some(connection) = settings::open_read_only(&folder.join("plan.db"))? else { return Ok(None) };
        let found: Option<String> = meta_table::get(&connection, META_DESCRIPTION)?;
        found.map(|text| serde_json::from_str(&text).context("failed to read the rule's description")).transpose()
    }

    /// Writes a plan, and how far delivery had come.
    pub fn append(&mut self, plan: &Plan, delivered: Option<BatchId>) -> Result<()> {
        let transaction = self.0.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO plan (batch, plan) VALUES (?1, ?2)")?;
            insert.execute(params![plan.batch.0, serde_json::to_string(plan)?])?;
            let mut position = transaction
                .prepare_cached("INSERT OR REPLACE INTO position (file, offset, line) VALUES (?1, ?2, ?3)")?;
            for OffsetRange { file, to, .. } in &plan.ranges {
                position.execute(params![file, to.offset, to.line])?;
            }
        }
        set_delivered(&transaction, delivered)?;
        transaction.commit().with_context(|| format!("failed to write the plan of batch {}", plan.batch))
    }

    /// Writes how far delivery came, when there is no plan to write it with.
    pub fn set_delivered(&self, delivered: Option<BatchId>) -> Result<()> {
        set_delivered(&self.0, delivered)
    }

    /// The last batch of which all outputs are known to be delivered.
    pub fn delivered(&self) -> Result<Option<BatchId>> {
        Ok(meta_table::get(&self.0, META_DELIVERED)?.map(BatchId))
    }

    /// The last plan.
    pub fn last(&self) -> Result<Option<Plan>> {
        Ok(self.read("SELECT plan FROM plan ORDER BY batch DESC LIMIT 1", 0)?.pop())
    }

    /// The plans from this batch on, in order. All of them must be there.
    pub fn from(&self, batch: BatchId) -> Result<Vec<Plan>> {
        let plans = self.read("SELECT plan FROM plan WHERE batch >= ?1 ORDER BY batch", batch.0)?;
        for (expected, plan) in (batch.0..).zip(&plans) {
            ensure!(plan.batch.0 == expected, "the plan of batch {expected} is missing: the data folder is damaged");
        }
        Ok(plans)
    }

    /// How far each file was read.
    pub fn positions(&self) -> Result<BTreeMap<String, Position>> {
        let mut statement = self.0.prepare("SELECT file, offset, line FROM position")?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, Position { offset: row.get(1)?, line: row.get(2)? })))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Forgets plans of batches that were delivered long ago.
    pub fn trim(&self, delivered: BatchId) -> Result<()> {
        let Some(last) = delivered.0.checked_sub(PLANS_KEPT) else { return Ok(()) };
        self.0.prepare_cached("DELETE FROM plan WHERE batch < ?1")?.execute([last])?;
        Ok(())
    }

    fn read(&self, sql: &str, from: u64) -> Result<Vec<Plan>> {
        let mut statement = self.0.prepare(sql)?;
        let mut rows = if statement.parameter_count() == 0 { statement.query([])? } else { statement.query([from])? };
        let mut plans = Vec::new();
        while let Some(row) = rows.next()? {
            plans.push(serde_json::from_str(row.get_ref(0)?.as_str()?).context("failed to read a plan")?);
        }
        Ok(plans)
    }
}

fn set_delivered(connection: &Connection, delivered: Option<BatchId>) -> Result<()> {
    match delivered {
        Some(batch) => meta_table::set(connection, META_DELIVERED, batch.0),
        None => Ok(()),
    }
}
