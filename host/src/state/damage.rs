//! Damage: what is said of a file that no longer holds what was written to it.

use super::meta_table;
use super::partition_db::META_PARTITION;
use anyhow::{Error, anyhow};
use rusqlite::{Connection, ErrorCode};
use std::fmt::Display;

/// What to do about it.
pub(super) const REMEDY: &str =
    "bring the data folder back with `keyfold restore` from its checkpoint, or put a backup in its place";

/// Names the file, its partition if it has one, what is damaged there, and what to do.
pub(super) fn damaged(connection: &Connection, what: impl Display, sign: impl Display) -> Error {
    let file = connection.path().unwrap_or("a file");
    // The file is damaged: that it cannot say its number is no other error.
    let partition: Option<u32> = meta_table::get(connection, META_PARTITION).unwrap_or_default();
    let of = partition.map_or_else(String::new, |partition| format!(" (partition {partition})"));
    anyhow!("{file}{of} is damaged: {what}: {sign}; {REMEDY}")
}

/// Says of an error of SQLite's what [`damaged`] says, if it means damage.
pub(super) fn explained(connection: &Connection, what: impl Display, error: rusqlite::Error) -> Error {
    let is_damage = match &error {
        // A value that its column cannot have: the tables are strict.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::FromSqlConversionFailure(..) => true,
        error => {
            matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        }
    };
    if is_damage { damaged(connection, what, error) } else { Error::new(error).context(what.to_string()) }
}
