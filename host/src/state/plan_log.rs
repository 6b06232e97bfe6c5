//! [`PlanLog`]: what each batch will read and under which clocks, written and synced before the batch runs.
//!
//! A batch that is run again after a crash sees the same events, time, watermark, seed and component, and so gives the same
//! bytes. It is Spark's offset log, with what Spark leaves to chance pinned as well.

mod version;

pub use version::NextRun;

use super::shipping::Shipped;
use super::{Hold, RefusedOutput, clean, hold, meta_table, progress_table, refused_table, settings, split};
use crate::event::{BatchId, InputId, OffsetRange, Position, Positions};
use crate::fault;
use crate::plan::{Identity, Plan, Settled};
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};

const SCHEMA: &str = "
    -- One row for each batch that was planned.
    CREATE TABLE plan (batch INTEGER PRIMARY KEY, plan TEXT NOT NULL) STRICT;
    -- How far each file of each input was read by all plans together, and the first batch that read of it, for an
    -- edit when it took effect; NULL when a restored folder does not know.
    CREATE TABLE position (
        input INTEGER NOT NULL, file TEXT NOT NULL, offset INTEGER NOT NULL, line INTEGER NOT NULL,
        first_batch INTEGER,
        PRIMARY KEY (input, file)
    ) STRICT, WITHOUT ROWID;
";

/// The tables of the log.
const TABLES: &[&str] = &[meta_table::SCHEMA, SCHEMA, progress_table::SCHEMA, refused_table::SCHEMA];

const META_IDENTITY: &str = "identity";
const META_DELIVERED: &str = "delivered";
const META_SETTLED: &str = "settled";
/// How often something was synced that was written without.
const META_SYNCS: &str = "syncs";
const META_CLAIMS: &str = "claims";

const LAST_PLAN: &str = "SELECT plan FROM plan ORDER BY batch DESC LIMIT 1";

/// Plans are kept for as many batches as Spark keeps its offsets, for people who look back.
const PLANS_KEPT: u64 = 100;

/// The plan log of one rule.
pub struct PlanLog {
    connection: Connection,
    path: PathBuf,
    /// What is done when the disk is full.
    hold: Hold,
    /// Progress that waits for the next transaction.
    progress: Vec<(BatchId, String)>,
    /// Outputs that were refused; wait for the next transaction, which says that their batch is delivered.
    refused: Vec<RefusedOutput>,
    /// Whether the next transaction deletes the outputs that were refused.
    purges_refused: bool,
    /// How far the watermark came when the input was used up; waits for the next transaction.
    settled: Option<Settled>,
    /// Plans that are not in the checkpoint yet are kept.
    shipped: Shipped,
    /// Whether something was written that no later transaction has synced.
    is_unsynced: bool,
    /// Whether all transactions went well, so that the file may be marked as closed in order.
    is_sound: bool,
}

impl PlanLog {
    /// Opens or makes the log, and checks that it belongs to the rule that is to run.
    pub fn open(folder: &Path, identity: &Identity) -> Result<Self> {
        let path = folder.join("plan.db");
        let connection = settings::open(&path, TABLES)?;
        fault::point("plan-log-made");
        match meta_table::get::<String>(&connection, META_IDENTITY)? {
            None => meta_table::set(&connection, META_IDENTITY, serde_json::to_string(identity)?)
                .map_err(|error| hold::ended_by_sync(&path, error))?,
            Some(found) => {
                let found: Identity = serde_json::from_str(&found).context("failed to read the plan log's identity")?;
                found
                    .check_same(identity)
                    .with_context(|| format!("the data folder {} cannot be used", folder.display()))?;
            }
        }
        Ok(PlanLog {
            connection,
            path,
            hold: Hold::default(),
            progress: Vec::new(),
            refused: Vec::new(),
            purges_refused: false,
            settled: None,
            shipped: Shipped::NoCheckpoint,
            is_unsynced: false,
            is_sound: true,
        })
    }

    /// Makes the log of a restored data folder: plans in order without gaps, how far all plans ever have read, and how far
    /// delivery had come.
    pub fn restore(
        folder: &Path,
        identity: &Identity,
        description: &serde_json::Value,
        plans: &[Plan],
        positions: &Positions,
        delivered: Option<BatchId>,
    ) -> Result<()> {
        let mut log = Self::open(folder, identity)?;
        meta_table::set(&log.connection, version::META_DESCRIPTION, description.to_string())?;
        log.write(|transaction| {
            let mut insert = transaction.prepare_cached("INSERT INTO plan (batch, plan) VALUES (?1, ?2)")?;
            for plan in plans {
                insert.execute(params![plan.batch.0, serde_json::to_string(plan)?])?;
            }
            for ((input, file), to) in positions {
                put_position(transaction, *input, file, *to, None)?;
            }
            set_delivered(transaction, delivered)
        })
        .context("failed to write the restored plans")
    }

    /// Waits like this when the disk is full.
    pub fn hold_with(&mut self, hold: Hold) {
        self.hold = hold;
    }

    /// The identity of the rule in a data folder; none when there is no plan log.
    pub fn identity(folder: &Path) -> Result<Option<Identity>> {
        split::finish(folder)?;
        let path = folder.join("plan.db");
        if !path.exists() {
            return Ok(None);
        }
        let Some(connection) = settings::open_read_only(&path)? else { return Ok(None) };
        let found: Option<String> = meta_table::get(&connection, META_IDENTITY)?;
        found.map(|text| serde_json::from_str(&text).context("failed to read the plan log's identity")).transpose()
    }

    /// How far batches lie in the checkpoint: later plans are kept whatever else is said.
    pub fn set_shipped(&mut self, shipped: Shipped) {
        self.shipped = shipped;
    }

    /// What the host has claimed of a checkpoint, as the checkpoint writes it.
    pub fn claims(&self) -> Result<Option<String>> {
        meta_table::get(&self.connection, META_CLAIMS)
    }

    /// Keeps what the host claims of a checkpoint, before it does.
    pub fn set_claims(&self, claims: &str) -> Result<()> {
        meta_table::set(&self.connection, META_CLAIMS, claims)
    }

    /// Writes a plan, how far delivery had come, and the progress kept so far. Forgets plans of batches that were delivered
    /// long ago.
    pub fn append(&mut self, plan: &Plan, delivered: Option<BatchId>) -> Result<()> {
        let needless = self.shipped.limit(delivered).and_then(|batch| batch.0.checked_sub(PLANS_KEPT));
        fault::point("plan-begin");
        self.write(|transaction| {
            let mut insert = transaction.prepare_cached("INSERT INTO plan (batch, plan) VALUES (?1, ?2)")?;
            insert.execute(params![plan.batch.0, serde_json::to_string(plan)?])?;
            for OffsetRange { input, file, to, .. } in &plan.ranges {
                put_position(transaction, *input, file, *to, Some(plan.batch))?;
            }
            if let Some(old) = needless {
                transaction.prepare_cached("DELETE FROM plan WHERE batch < ?1")?.execute([old])?;
            }
            set_delivered(transaction, delivered)
        })
        .with_context(|| format!("failed to write the plan of batch {}", plan.batch))
    }

    /// Writes how far delivery came and the progress kept so far, when there is no plan to write it with.
    pub fn set_delivered(&mut self, delivered: Option<BatchId>) -> Result<()> {
        fault::point("delivered-begin");
        self.write(|transaction| set_delivered(transaction, delivered))?;
        fault::point("delivered-written");
        Ok(())
    }

    /// Keeps what a batch did. It is written with the next plan: a transaction of its own would cost every batch another
    /// sync. A crash takes what was kept since the last plan, and with it how far delivery came: these batches are run again,
    /// and report again, though only what was left to do.
    pub fn keep_progress(&mut self, batch: BatchId, record: String) {
        self.progress.push((batch, record));
    }

    /// Keeps outputs that were refused. They are written with how far delivery came, which must be told before the next
    /// transaction.
    pub fn keep_refused(&mut self, outputs: Vec<RefusedOutput>) {
        self.refused.extend(outputs);
    }

    /// Deletes the outputs that were refused so far, with what is written next: the plan that says so.
    pub fn purge_refused(&mut self) {
        self.purges_refused = true;
    }

    /// Calls `each` with every output of a data folder that was refused, oldest first.
    pub fn refused_outputs(folder: &Path, each: impl FnMut(RefusedOutput) -> Result<()>) -> Result<()> {
        let connection = settings::open_read_only(&folder.join("plan.db"))?;
        connection.map_or(Ok(()), |connection| refused_table::scan(&connection, each))
    }

    /// Keeps how far the watermark came when the input was used up. It is written with what is written next.
    pub fn set_settled(&mut self, settled: Option<Settled>) {
        self.settled = settled;
    }

    /// How far the watermark came when the input was last known to be used up.
    pub fn settled(&self) -> Result<Option<Settled>> {
        let found: Option<String> = meta_table::get(&self.connection, META_SETTLED)?;
        found.map(|text| serde_json::from_str(&text).context("failed to read how far the watermark came")).transpose()
    }

    /// Lets readers see the progress kept so far while the host waits. Nothing is synced: the next plan does that, and until
    /// then a crash of the machine may take it back.
    pub fn show_progress(&mut self, delivered: Option<BatchId>) -> Result<()> {
        if self.progress.is_empty() {
            return Ok(());
        }
        settings::set_synced(&self.connection, false)?;
        let written = self.write(|transaction| set_delivered(transaction, delivered));
        settings::set_synced(&self.connection, true)?;
        self.is_unsynced = true;
        written
    }

    /// What the last batches of a data folder did, oldest first, each as JSON; none when there is no plan log.
    pub fn recent_progress(folder: &Path) -> Result<Option<Vec<String>>> {
        let path = folder.join("plan.db");
        if !path.exists() {
            return Ok(None);
        }
        let Some(connection) = settings::open_read_only(&path)? else { return Ok(None) };
        progress_table::read(&connection).map(Some)
    }

    /// The imports that were read, each with the first batch that did, where that is known; none when there is no
    /// plan log.
    pub fn imported_files(folder: &Path) -> Result<Vec<(String, Option<BatchId>)>> {
        let Some(connection) = settings::open_read_only(&folder.join("plan.db"))? else { return Ok(Vec::new()) };
        let mut statement = connection.prepare("SELECT file, first_batch FROM position WHERE input = ?1")?;
        let names = statement.query_map([InputId::IMPORTS.0], |row| {
            let batch: Option<u64> = row.get(1)?;
            Ok((row.get(0)?, batch.map(BatchId)))
        })?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    /// The last batch of which all outputs are known to be delivered.
    pub fn delivered(&self) -> Result<Option<BatchId>> {
        Ok(meta_table::get(&self.connection, META_DELIVERED)?.map(BatchId))
    }

    /// The last plan.
    pub fn last(&self) -> Result<Option<Plan>> {
        Ok(read_plans(&self.connection, LAST_PLAN, 0)?.pop())
    }

    /// The plans from this batch on, in order. All of them must be there.
    pub fn from(&self, batch: BatchId) -> Result<Vec<Plan>> {
        let plans = read_plans(&self.connection, "SELECT plan FROM plan WHERE batch >= ?1 ORDER BY batch", batch.0)?;
        for (expected, plan) in (batch.0..).zip(&plans) {
            ensure!(plan.batch.0 == expected, "the plan of batch {expected} is missing: the data folder is damaged");
        }
        Ok(plans)
    }

    /// Copies the log to a new file, for the same rule with another number of partitions.
    pub(super) fn copy(&self, to: &Path, partitions: u32) -> Result<()> {
        let attempt = || format!("failed to make {}", to.display());
        self.connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]).with_context(attempt)?;
        let copy = settings::open(to, TABLES)?;
        let text: String = meta_table::get(&copy, META_IDENTITY)?.with_context(attempt)?;
        let found: Identity = serde_json::from_str(&text).context("failed to read the plan log's identity")?;
        let identity = serde_json::to_string(&Identity { partitions, ..found })?;
        meta_table::set(&copy, META_IDENTITY, identity).with_context(attempt)?;
        clean::set(&copy)
    }

    /// How far each file was read.
    pub fn positions(&self) -> Result<Positions> {
        let mut statement = self.connection.prepare("SELECT input, file, offset, line FROM position")?;
        let rows = statement.query_map([], |row| {
            let position = Position { offset: row.get(2)?, line: row.get(3)? };
            Ok(((InputId(row.get(0)?), row.get::<_, String>(1)?), position))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// One transaction, which takes along the progress that waits.
    fn write(&mut self, change: impl Fn(&Connection) -> Result<()>) -> Result<()> {
        self.is_sound = false;
        let (hold, path) = (self.hold.clone(), self.path.clone());
        hold.write(&path, || self.try_write(&change))?;
        self.progress.clear();
        self.refused.clear();
        self.purges_refused = false;
        self.is_sound = true;
        self.is_unsynced = false;
        settings::checkpoint_when_long(&self.connection, &path)
    }

    fn try_write(&mut self, change: impl Fn(&Connection) -> Result<()>) -> Result<()> {
        let transaction = self.connection.transaction()?;
        change(&transaction)?;
        clean::clear(&transaction)?;
        for (batch, record) in &self.progress {
            progress_table::put(&transaction, *batch, record)?;
        }
        self.refused.iter().try_for_each(|refused| refused_table::put(&transaction, refused))?;
        if self.purges_refused {
            refused_table::purge(&transaction)?;
        }
        if let Some(settled) = &self.settled {
            meta_table::set(&transaction, META_SETTLED, serde_json::to_string(settled)?)?;
        }
        if self.is_unsynced {
            // A transaction that changes nothing writes nothing, and syncs nothing of what was written before.
            let syncs: u64 = meta_table::get(&transaction, META_SYNCS)?.unwrap_or(0);
            meta_table::set(&transaction, META_SYNCS, syncs + 1)?;
        }
        fault::point("plan-log-write");
        Ok(transaction.commit()?)
    }
}

fn read_plans(connection: &Connection, sql: &str, from: u64) -> Result<Vec<Plan>> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = if statement.parameter_count() == 0 { statement.query([])? } else { statement.query([from])? };
    let mut plans = Vec::new();
    while let Some(row) = rows.next()? {
        plans.push(serde_json::from_str(row.get_ref(0)?.as_str()?).context("failed to read a plan")?);
    }
    Ok(plans)
}

/// Moves a file's position on. `batch` read of it; none when that is not known.
fn put_position(
    connection: &Connection,
    input: InputId,
    file: &str,
    to: Position,
    batch: Option<BatchId>,
) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO position (input, file, offset, line, first_batch) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET offset = excluded.offset, line = excluded.line",
    )?;
    statement.execute(params![input.0, file, to.offset, to.line, batch.map(|batch| batch.0)])?;
    Ok(())
}

impl Drop for PlanLog {
    fn drop(&mut self) {
        if self.is_sound {
            clean::close(&self.connection, &self.path);
        }
    }
}

fn set_delivered(connection: &Connection, delivered: Option<BatchId>) -> Result<()> {
    match delivered {
        Some(batch) => meta_table::set(connection, META_DELIVERED, batch.0),
        None => Ok(()),
    }
}
