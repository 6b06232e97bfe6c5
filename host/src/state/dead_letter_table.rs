//! Groups that failed, and records that could not become events, each with the reason.

use super::damage::damaged;
use crate::event::BatchId;
use anyhow::Result;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const SCHEMA: &str = "
    -- In the transaction that would have held the group's outcome, so that no event is lost or handled twice.
    CREATE TABLE dead_letter (
        batch INTEGER NOT NULL,
        number INTEGER NOT NULL,
        reason TEXT NOT NULL,
        letter TEXT NOT NULL,
        checksum INTEGER NOT NULL,
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

/// Adds letters of a batch, after those that it has.
pub(super) fn insert(connection: &Connection, batch: BatchId, letters: &[DeadLetter]) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO dead_letter (batch, number, reason, letter, checksum)
         VALUES (?1, (SELECT COALESCE(MAX(number) + 1, 0) FROM dead_letter WHERE batch = ?1), ?2, ?3, ?4)",
    )?;
    for letter in letters {
        let text = serde_json::to_string(letter)?;
        statement.execute(params![batch.0, letter.reason, text, checksum(&text)])?;
    }
    Ok(())
}

/// Calls `each` with every letter, oldest first.
pub(super) fn scan(connection: &Connection, mut each: impl FnMut(BatchId, DeadLetter) -> Result<()>) -> Result<()> {
    let mut statement = connection.prepare("SELECT batch, letter, checksum FROM dead_letter ORDER BY batch, number")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (batch, text) = (BatchId(row.get(0)?), row.get_ref(1)?.as_bytes()?);
        match std::str::from_utf8(text) {
            Ok(text) if checksum(text) == row.get::<_, i64>(2)? => each(batch, serde_json::from_str(text)?)?,
            _ => return Err(damaged(connection, format!("a dead letter of batch {batch}"), "its checksum is wrong")),
        }
    }
    Ok(())
}

fn checksum(text: &str) -> i64 {
    xxh3_64(text.as_bytes()) as i64
}
