//! What the last batches did, for people who look back.

use crate::event::BatchId;
use anyhow::Result;
use rusqlite::{Connection, params};

pub(super) const SCHEMA: &str = "
    -- The record as it was reported, in JSON: nothing here is searched, and later versions of the host may say more.
    CREATE TABLE progress (batch INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
";

/// As many as Spark keeps (`spark.sql.streaming.numRecentProgressUpdates`): enough to see a trend, little enough to print.
const KEPT: u32 = 100;

/// Adds a record and forgets the oldest. An earlier record of the same batch stays: a batch that is run again counts only
/// what its partitions had not committed.
pub(super) fn put(connection: &Connection, batch: BatchId, record: &str) -> Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO progress (batch, record) VALUES (?1, ?2)")?
        .execute(params![batch.0, record])?;
    // Records are counted rather than batch numbers, because a crash leaves gaps.
    connection
        .prepare_cached(
            "DELETE FROM progress WHERE batch < (SELECT batch FROM progress ORDER BY batch DESC LIMIT 1 OFFSET ?1)",
        )?
        .execute([KEPT - 1])?;
    Ok(())
}

/// The records, oldest first.
pub(super) fn read(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT record FROM progress ORDER BY batch")?;
    let records = statement.query_map([], |row| row.get(0))?;
    Ok(records.collect::<rusqlite::Result<_>>()?)
}
