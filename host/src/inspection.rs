//! States as people read them: decoded to JSON where the format allows.

use crate::description::StateFormat;
use crate::event::{BatchId, PartitionId};
use crate::group::TimeoutClock;
use crate::state::PlanLog;
use crate::state::reader::KeyRow;
use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;

/// Decodes states to JSON.
#[derive(Debug, Clone, Copy)]
pub struct StateDecoder(StateFormat);

impl StateDecoder {
    /// Decodes this format.
    pub fn new(format: StateFormat) -> Self {
        StateDecoder(format)
    }

    /// Decodes what the rule of a data folder wrote.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        Ok(StateDecoder(PlanLog::description(folder)?.map_or(StateFormat::Opaque, |rule| rule.state_format)))
    }

    /// The state as JSON; none when only the rule understands it.
    pub fn decode(&self, state: &[u8]) -> Option<Value> {
        match self.0 {
            StateFormat::Msgpack => rmp_serde::from_slice(state).ok(),
            StateFormat::Json => serde_json::from_slice(state).ok(),
            StateFormat::Opaque => None,
        }
    }

    /// Adds a state to a line: as `value`, or in hexadecimal as `value_hex` when only the rule understands it.
    fn add(&self, state: &[u8], line: &mut Value) {
        match self.decode(state) {
            Some(value) => line["value"] = value,
            None => line["value_hex"] = state.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        }
    }
}

/// A key's row as JSON, under the names of Spark's state reader: `key`, `value`, `partition_id`. Besides, what Spark hides in
/// the value: `schema`, and `timeout` with its clock and time. A row without state has no value, one without timeout no timeout.
pub fn row_to_json(row: &KeyRow, decoder: &StateDecoder, partition: Option<PartitionId>) -> Value {
    let mut line = json!({ "key": String::from_utf8_lossy(&row.key) });
    if let Some((state, _)) = &row.state {
        decoder.add(state, &mut line);
    }
    if let Some(partition) = partition {
        line["partition_id"] = partition.0.into();
    }
    if let Some((_, schema)) = &row.state {
        line["schema"] = (*schema).into();
    }
    if let Some(timeout) = timeout_of(row) {
        line["timeout"] = timeout;
    }
    line
}

/// What a batch made of a key as JSON, under the names of Spark's change feed: `batch_id`, `change_type`, `key`, `value`,
/// `partition_id`; besides `schema` and `timeout`. A deleted key has the value null, as has one that keeps only a timeout.
pub fn change_to_json(batch: BatchId, row: &KeyRow, decoder: &StateDecoder, partition: PartitionId) -> Value {
    let mut line = json!({
        "batch_id": batch.0,
        "change_type": if row.is_gone() { "delete" } else { "update" },
        "key": String::from_utf8_lossy(&row.key),
        "value": null,
        "partition_id": partition.0,
    });
    if let Some((state, _)) = &row.state {
        decoder.add(state, &mut line);
    }
    if let Some((_, schema)) = &row.state {
        line["schema"] = (*schema).into();
    }
    if let Some(timeout) = timeout_of(row) {
        line["timeout"] = timeout;
    }
    line
}

fn timeout_of(row: &KeyRow) -> Option<Value> {
    let timeout = row.timeout?;
    let clock = match timeout.clock {
        TimeoutClock::ProcessingTime => "processing-time",
        TimeoutClock::EventTime => "event-time",
    };
    Some(json!({ "clock": clock, "ms": timeout.at.0, "time": timeout.at.to_string() }))
}
