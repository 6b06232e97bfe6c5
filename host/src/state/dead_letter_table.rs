//! Groups that failed, and records that could not become events, each with the reason.

use crate::event::{BatchId, InputId};
use anyhow::Result;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

pub(super) const SCHEMA: &str = "
    -- In the transaction that would have held the group's outcome, so that no event is lost or handled twice.
    CREATE TABLE dead_letter (
        batch INTEGER NOT NULL,
        number INTEGER NOT NULL,
        reason TEXT NOT NULL,
        letter TEXT NOT NULL,
        -- The batch in which its events ran again. The letter stays, so that one can see what became of it.
        re_driven INTEGER,
        PRIMARY KEY (batch, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX dead_letter_reason ON dead_letter (reason);
";

/// What could not be handled, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// A stable word; see [`crate::wasm::Reason`] for groups, and the sources for records.
    pub reason: String,
    /// What happened and what to do.
    pub message: String,
    /// The key; none for a record that has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
    /// The component that failed; none for a record that never reached it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// The fuel that the group had used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fuel: Option<u64>,
    /// Whether the group was called for its timeout.
    #[serde(default)]
    pub timed_out: bool,
    /// The events: each with the file and line that it came from.
    pub events: Vec<DeadEvent>,
}

/// A dead letter as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptLetter {
    /// The batch that wrote it.
    pub batch: BatchId,
    /// Its number in the batch, from 0.
    pub number: u64,
    /// The batch in which its events ran again.
    pub re_driven: Option<BatchId>,
    /// What could not be handled.
    pub letter: DeadLetter,
}

/// One event or record of a dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadEvent {
    /// The input that it belongs to; none for an imported state.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input: Option<InputId>,
    /// The source partition.
    pub file: String,
    /// Its line there, from 1.
    pub line: u64,
    /// The text; invalid UTF-8 replaced.
    pub text: String,
}

pub(super) fn insert(connection: &Connection, batch: BatchId, letters: &[DeadLetter]) -> Result<()> {
    let mut statement =
        connection.prepare_cached("INSERT INTO dead_letter (batch, number, reason, letter) VALUES (?1, ?2, ?3, ?4)")?;
    for (number, letter) in letters.iter().enumerate() {
        statement.execute(params![batch.0, number, letter.reason, serde_json::to_string(letter)?])?;
    }
    Ok(())
}

/// Marks a letter whose events ran again in this batch.
pub(super) fn mark_re_driven(connection: &Connection, letter: (BatchId, u64), batch: BatchId) -> Result<()> {
    let mut statement =
        connection.prepare_cached("UPDATE dead_letter SET re_driven = ?3 WHERE batch = ?1 AND number = ?2")?;
    statement.execute(params![letter.0.0, letter.1, batch.0])?;
    Ok(())
}

/// Calls `each` with every letter, oldest first.
pub(super) fn scan(connection: &Connection, mut each: impl FnMut(KeptLetter) -> Result<()>) -> Result<()> {
    let mut statement =
        connection.prepare("SELECT batch, number, re_driven, letter FROM dead_letter ORDER BY batch, number")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let re_driven: Option<u64> = row.get(2)?;
        each(KeptLetter {
            batch: BatchId(row.get(0)?),
            number: row.get(1)?,
            re_driven: re_driven.map(BatchId),
            letter: serde_json::from_str(row.get_ref(3)?.as_str()?)?,
        })?;
    }
    Ok(())
}
