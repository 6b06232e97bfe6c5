//! Activations: which version was to run when, by whom, and what became of it.

use super::{Change, RuleId};
use crate::event::{BatchId, Millis};
use anyhow::Result;
use rusqlite::{Row, params};

pub(super) const SCHEMA: &str = "
    -- A row is written before the rule is asked to run the version, so that a crash between forgets neither. Of each rule one row at
    -- most is wanted: the last one.
    CREATE TABLE activation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        rule TEXT NOT NULL,
        time INTEGER NOT NULL,
        -- The name of a token; NULL when the host did it by itself.
        by TEXT,
        digest TEXT NOT NULL,
        -- What the component calls its version.
        version TEXT NOT NULL,
        from_digest TEXT,
        parameters TEXT NOT NULL,
        limits TEXT NOT NULL,
        -- Parameters and limits as the manifest had them, so that it can go back with them.
        declared TEXT NOT NULL,
        state TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('wanted', 'active', 'failed')),
        batch INTEGER,
        -- The generation of the states that it writes: tells whether the rule knew of it, when a crash came before it was noted here.
        generation INTEGER,
        -- Whether its first batches went well, so that it is not taken back any more.
        proven INTEGER NOT NULL DEFAULT 0,
        reason TEXT
    ) STRICT;
    CREATE INDEX activation_rule ON activation (rule, id);
";

/// What became of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivationStatus {
    /// The rule has not said yet that it runs.
    Wanted,
    /// It took effect.
    Active,
    /// It was refused when it was to take effect.
    Failed,
}

/// An activation that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewActivation {
    /// The rule.
    pub rule: RuleId,
    /// When.
    pub time: Millis,
    /// The name of the token; None: the host by itself.
    pub by: Option<String>,
    /// What is to run.
    pub digest: String,
    /// What the component calls its version.
    pub version: String,
    /// What ran before.
    pub from: Option<String>,
    /// The parameters, as JSON.
    pub parameters: String,
    /// The limits, as JSON.
    pub limits: String,
    /// Parameters and limits as the manifest had them, as JSON.
    pub declared: String,
    /// What becomes of the states, as it is written.
    pub state: String,
    /// Why, when the host does it by itself.
    pub reason: Option<String>,
}

/// An activation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivationRow {
    /// Its number: later ones have greater ones.
    pub id: i64,
    /// What was asked for.
    pub asked: NewActivation,
    /// What became of it.
    pub status: ActivationStatus,
    /// The first batch that ran with it.
    pub batch: Option<BatchId>,
    /// The generation of the states that it writes.
    pub generation: Option<u8>,
    /// Whether its first batches went well.
    pub is_proven: bool,
}

impl ActivationRow {
    /// Whether it took effect.
    pub fn took_effect(&self) -> bool {
        self.status == ActivationStatus::Active
    }
}

const COLUMNS: &str = "id, rule, time, by, digest, from_digest, parameters, limits, state, status, batch, reason, generation, proven, \
     version, declared";

impl Change<'_> {
    /// The last activation of each rule that took effect, and the one that is wanted, if there is one.
    pub fn last_activations(&self) -> Result<Vec<ActivationRow>> {
        let mut statement = self.transaction.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM activation WHERE id IN
                 (SELECT MAX(id) FROM activation WHERE status <> 'failed' GROUP BY rule, status) ORDER BY id"
        ))?;
        let rows = statement.query_map([], of_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The activations of a rule, newest first.
    pub fn activations(&self, rule: &RuleId) -> Result<Vec<ActivationRow>> {
        let sql = format!("SELECT {COLUMNS} FROM activation WHERE rule = ?1 ORDER BY id DESC");
        let mut statement = self.transaction.prepare_cached(&sql)?;
        let rows = statement.query_map([rule.as_str()], of_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Notes that another version is to run. Returns the activation's number.
    pub fn add_activation(&self, new: &NewActivation) -> Result<i64> {
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO activation
                 (rule, time, by, digest, version, from_digest, parameters, limits, declared, state, status, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'wanted', ?11)",
        )?;
        statement.execute(params![
            new.rule.as_str(),
            new.time.0,
            new.by,
            new.digest,
            new.version,
            new.from,
            new.parameters,
            new.limits,
            new.declared,
            new.state,
            new.reason,
        ])?;
        Ok(self.transaction.last_insert_rowid())
    }

    /// Notes that an activation took effect with this batch.
    pub fn activation_took_effect(&self, id: i64, batch: BatchId, generation: u8) -> Result<()> {
        let sql = "UPDATE activation SET status = 'active', batch = ?2, generation = ?3 WHERE id = ?1";
        self.transaction.prepare_cached(sql)?.execute(params![id, batch.0, generation])?;
        Ok(())
    }

    /// Notes that the first batches of an activation went well.
    pub fn activation_is_proven(&self, id: i64) -> Result<()> {
        self.transaction.prepare_cached("UPDATE activation SET proven = 1 WHERE id = ?1")?.execute([id])?;
        Ok(())
    }

    /// Notes that an activation did not take effect, and why.
    pub fn activation_failed(&self, id: i64, reason: &str) -> Result<()> {
        let mut statement =
            self.transaction.prepare_cached("UPDATE activation SET status = 'failed', reason = ?2 WHERE id = ?1")?;
        statement.execute(params![id, reason])?;
        Ok(())
    }

    /// Deletes the activations of a rule.
    pub fn delete_activations(&self, rule: &RuleId) -> Result<()> {
        self.transaction.prepare_cached("DELETE FROM activation WHERE rule = ?1")?.execute([rule.as_str()])?;
        Ok(())
    }
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<ActivationRow> {
    Ok(ActivationRow {
        id: row.get(0)?,
        asked: NewActivation {
            rule: RuleId::from_text(row.get(1)?),
            time: Millis(row.get(2)?),
            by: row.get(3)?,
            digest: row.get(4)?,
            from: row.get(5)?,
            parameters: row.get(6)?,
            limits: row.get(7)?,
            version: row.get(14)?,
            declared: row.get(15)?,
            state: row.get(8)?,
            reason: row.get(11)?,
        },
        status: match row.get_ref(9)?.as_str()? {
            "active" => ActivationStatus::Active,
            "failed" => ActivationStatus::Failed,
            // The schema lets nothing else be written.
            _ => ActivationStatus::Wanted,
        },
        batch: row.get::<_, Option<u64>>(10)?.map(BatchId),
        generation: row.get(12)?,
        is_proven: row.get(13)?,
    })
}
