//! States as people read them: decoded to JSON where the format allows.

use crate::description::StateFormat;
use crate::event::{BatchId, PartitionId};
use crate::group::TimeoutClock;
use crate::state::PlanLog;
use crate::state::reader::KeyRow;
use anyhow::Result;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
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
            None => line["value_hex"] = hex(state).into(),
        }
    }

    /// The state as JSON text, when an import would make the same bytes of it.
    fn exact(&self, state: &[u8]) -> Option<Box<RawValue>> {
        let text = match self.0 {
            StateFormat::Opaque => None,
            StateFormat::Json => String::from_utf8(state.to_vec()).ok().filter(|text| !text.contains('\n')),
            StateFormat::Msgpack => self
                .decode(state)
                .filter(|value| rmp_serde::to_vec_named(value).is_ok_and(|bytes| bytes == state))
                .map(|value| value.to_string()),
        }?;
        // An import takes null for no value at all.
        RawValue::from_string(text).ok().filter(|value| value.get() != "null")
    }
}

/// A key's row as JSON, under the names of Spark's state reader: `key`, `value`, `partition_id`. Besides, what Spark hides in
/// the value: `schema`, and `timeout` with its clock and time. A row without state has no value, one without timeout no timeout.
pub fn row_to_json(row: &KeyRow, decoder: &StateDecoder, partition: Option<PartitionId>) -> Value {
    let mut line = json!({ "key": String::from_utf8_lossy(&row.key) });
    if let Some((state, _)) = row.value() {
        decoder.add(state, &mut line);
    }
    if let Some(partition) = partition {
        line["partition_id"] = partition.0.into();
    }
    if let Some((_, schema)) = row.value() {
        line["schema"] = schema.into();
    }
    if let Some(timeout) = timeout_of(row) {
        line["timeout"] = timeout;
    }
    line
}

/// A key's row as a line that `keyfold state import --as-is` makes the same row of, to the byte. The state is a `value` that people
/// can read and change where that is possible, else `value_hex`.
pub fn row_to_import(row: &KeyRow, decoder: &StateDecoder) -> Result<String> {
    let state = row.value().map(|(state, _)| state);
    let value = state.and_then(|state| decoder.exact(state));
    Ok(serde_json::to_string(&ExportedRow {
        key: String::from_utf8_lossy(&row.key),
        value_hex: state.filter(|_| value.is_none()).map(hex),
        value,
        schema: row.value().map(|(_, schema)| schema),
        timeout: timeout_of(row),
    })?)
}

#[derive(Serialize)]
struct ExportedRow<'a> {
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Value>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
    if let Some((state, schema)) = row.value() {
        decoder.add(state, &mut line);
        line["schema"] = schema.into();
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
