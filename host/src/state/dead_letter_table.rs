//! Groups that failed, and records that could not become events, each with the reason.

use crate::event::BatchId;
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

/// One event or record of a dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadEvent {
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

/// The letters of a batch, in their order.
pub(super) fn of_batch(connection: &Connection, batch: BatchId) -> Result<Vec<DeadLetter>> {
    let mut statement = connection.prepare_cached("SELECT letter FROM dead_letter WHERE batch = ?1 ORDER BY number")?;
    let mut rows = statement.query([batch.0])?;
    let mut letters = Vec::new();
    while let Some(row) = rows.next()? {
        letters.push(serde_json::from_str(row.get_ref(0)?.as_str()?)?);
    }
    Ok(letters)
}

/// Calls `each` with every letter, oldest first.
pub(super) fn scan(connection: &Connection, mut each: impl FnMut(BatchId, DeadLetter) -> Result<()>) -> Result<()> {
    let mut statement = connection.prepare("SELECT batch, letter FROM dead_letter ORDER BY batch, number")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(BatchId(row.get(0)?), serde_json::from_str(row.get_ref(1)?.as_str()?)?)?;
    }
    Ok(())
}
