//! Outputs that a sink refused for good.

use crate::event::{BatchId, PartitionId};
use anyhow::Result;
use rusqlite::{Connection, params};

pub(super) const SCHEMA: &str = "
    -- Beside the plans, because it is written with how far delivery came: an output is either to be delivered or here.
    CREATE TABLE refused_output (
        batch INTEGER NOT NULL,
        partition INTEGER NOT NULL,
        number INTEGER NOT NULL,
        output TEXT NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (batch, partition, number)
    ) STRICT, WITHOUT ROWID;
";

/// An output that the receiver will never take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedOutput {
    /// The batch that put it out.
    pub batch: BatchId,
    /// The partition.
    pub partition: PartitionId,
    /// Its number among the partition's outputs of the batch.
    pub number: u64,
    /// The output: a line of JSON.
    pub output: String,
    /// What the receiver said.
    pub message: String,
}

/// Adds an output. One that is refused once more, after a crash, has the same bytes; the newer message is kept.
pub(super) fn put(connection: &Connection, refused: &RefusedOutput) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO refused_output (batch, partition, number, output, message) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let RefusedOutput { batch, partition, number, output, message } = refused;
    statement.execute(params![batch.0, partition.0, number, output, message])?;
    Ok(())
}

/// Deletes all of them.
pub(super) fn purge(connection: &Connection) -> Result<()> {
    connection.prepare_cached("DELETE FROM refused_output")?.execute([])?;
    Ok(())
}

/// Calls `each` with every refused output, oldest first.
pub(super) fn scan(connection: &Connection, mut each: impl FnMut(RefusedOutput) -> Result<()>) -> Result<()> {
    let mut statement = connection.prepare(
        "SELECT batch, partition, number, output, message FROM refused_output ORDER BY batch, partition, number",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(RefusedOutput {
            batch: BatchId(row.get(0)?),
            partition: PartitionId(row.get(1)?),
            number: row.get(2)?,
            output: row.get(3)?,
            message: row.get(4)?,
        })?;
    }
    Ok(())
}
