//! Groups that failed, and records that could not become events, each with the reason.

use super::damage::damaged;
use crate::event::{BatchId, InputId};
use crate::imports::LettersToPurge;
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
        -- The batch in which its events ran again. The letter stays, so that one can see what became of it.
        re_driven INTEGER,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (batch, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX dead_letter_reason ON dead_letter (reason);
    CREATE INDEX dead_letter_re_driven ON dead_letter (re_driven) WHERE re_driven IS NOT NULL;
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

/// Puts a letter as it was kept elsewhere.
pub(super) fn put(connection: &Connection, kept: &KeptLetter) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO dead_letter (batch, number, reason, letter, checksum, re_driven) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let KeptLetter { batch, number, re_driven, letter } = kept;
    let text = serde_json::to_string(letter)?;
    let re_driven = re_driven.map(|batch| batch.0);
    statement.execute(params![batch.0, number, letter.reason, text, checksum(&text), re_driven])?;
    Ok(())
}

/// The number that the next letter of a batch gets.
pub(super) fn next_number(connection: &Connection, batch: BatchId) -> Result<u64> {
    let mut statement =
        connection.prepare_cached("SELECT COALESCE(MAX(number) + 1, 0) FROM dead_letter WHERE batch = ?1")?;
    Ok(statement.query_row([batch.0], |row| row.get(0))?)
}

/// Deletes letters of batches before this one.
pub(super) fn purge(connection: &Connection, before: BatchId, which: &LettersToPurge) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM dead_letter
         WHERE batch < ?1 AND (?2 IS NULL OR reason = ?2) AND (?3 IS NULL OR letter ->> '$.key' = ?3)",
    )?;
    statement.execute(params![before.0, which.reason, which.key])?;
    Ok(())
}

/// Marks a letter whose events ran again in this batch.
pub(super) fn mark_re_driven(connection: &Connection, letter: (BatchId, u64), batch: BatchId) -> Result<()> {
    let mut statement =
        connection.prepare_cached("UPDATE dead_letter SET re_driven = ?3 WHERE batch = ?1 AND number = ?2")?;
    statement.execute(params![letter.0.0, letter.1, batch.0])?;
    Ok(())
}

/// The letters whose events ran again in a batch: the batch and the number of each.
pub(super) fn re_driven_in(connection: &Connection, batch: BatchId) -> Result<Vec<(BatchId, u64)>> {
    let mut statement = connection
        .prepare_cached("SELECT batch, number FROM dead_letter WHERE re_driven = ?1 ORDER BY batch, number")?;
    let letters = statement.query_map([batch.0], |row| Ok((BatchId(row.get(0)?), row.get(1)?)))?;
    Ok(letters.collect::<rusqlite::Result<_>>()?)
}

/// The letters of a batch, in their order.
pub(super) fn of_batch(connection: &Connection, batch: BatchId) -> Result<Vec<DeadLetter>> {
    let mut statement = connection
        .prepare_cached("SELECT batch, letter, checksum FROM dead_letter WHERE batch = ?1 ORDER BY number")?;
    let mut rows = statement.query([batch.0])?;
    let mut letters = Vec::new();
    while let Some(row) = rows.next()? {
        letters.push(checked(connection, row)?);
    }
    Ok(letters)
}

/// Calls `each` with every letter, oldest first.
pub(super) fn scan(connection: &Connection, mut each: impl FnMut(KeptLetter) -> Result<()>) -> Result<()> {
    let mut statement = connection
        .prepare("SELECT batch, letter, checksum, number, re_driven FROM dead_letter ORDER BY batch, number")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let re_driven: Option<u64> = row.get(4)?;
        each(KeptLetter {
            batch: BatchId(row.get(0)?),
            number: row.get(3)?,
            re_driven: re_driven.map(BatchId),
            letter: checked(connection, row)?,
        })?;
    }
    Ok(())
}

/// The letter of a row with batch, letter and checksum.
fn checked(connection: &Connection, row: &rusqlite::Row<'_>) -> Result<DeadLetter> {
    match std::str::from_utf8(row.get_ref(1)?.as_bytes()?) {
        Ok(text) if checksum(text) == row.get::<_, i64>(2)? => Ok(serde_json::from_str(text)?),
        _ => {
            let what = format!("a dead letter of batch {}", row.get::<_, u64>(0)?);
            Err(damaged(connection, what, "its checksum is wrong"))
        }
    }
}

fn checksum(text: &str) -> i64 {
    xxh3_64(text.as_bytes()) as i64
}
