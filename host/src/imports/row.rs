//! [`ImportLine`]: what a line of an import is.

use super::edit::Edit;
use super::purge::{LettersToPurge, PURGE, PurgeLine};
use crate::description::StateFormat;
use crate::event::{BatchId, InputId, Millis, PartitionId};
use crate::extract::imported_key;
use crate::generation::SCHEMA_NUMBER_END;
use crate::group::{Timeout, TimeoutClock};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How the line begins that says who made an edit; no row of states begins so.
pub(super) const EDIT: &str = "{\"edit\":";
/// How the line of an event begins that runs again.
const EVENT: &str = "{\"event\":";

/// A line of an import.
#[derive(Debug, PartialEq)]
pub enum ImportLine {
    /// Who put in what follows, and why.
    Edit(Edit),
    /// The state of a key.
    State(ImportRow),
    /// An event of a dead letter, which runs again.
    Event(RedrivenEvent),
    /// Dead letters that are deleted.
    Purge(LettersToPurge),
}

/// One imported row: the state of a key.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportRow {
    /// The key.
    pub key: Vec<u8>,
    /// The state; none when the row has only a timeout.
    pub value: Option<ImportValue>,
    /// The number of the state's schema; none for the one that the rule writes.
    pub schema: Option<u32>,
    /// When the key wants to be called.
    pub timeout: Option<Timeout>,
    /// Whether the key keeps the timeout that it has.
    pub keeps_timeout: bool,
}

/// An imported state.
#[derive(Debug, PartialEq, Eq)]
pub enum ImportValue {
    /// As JSON text, to be encoded as the rule does.
    Json(String),
    /// The bytes, when only the rule understands them.
    Bytes(Vec<u8>),
}

/// An event of a dead letter, as it was read the first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedrivenEvent {
    /// Its text.
    #[serde(rename = "event")]
    pub text: String,
    /// The input that it belongs to.
    pub input: InputId,
    /// The source partition that it came from.
    pub file: String,
    /// Its line there, from 1.
    pub line: u64,
    /// The letter that it was in.
    pub letter: LetterId,
}

/// Which dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LetterId {
    /// The partition that has it.
    pub partition: PartitionId,
    /// The batch that wrote it.
    pub batch: BatchId,
    /// Its number in the batch and partition, from 0.
    pub number: u64,
}

/// A row as it is written. What `keyfold state ls` prints can be imported.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow<'a> {
    #[serde(borrow)]
    key: &'a RawValue,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    value_hex: Option<String>,
    schema: Option<u32>,
    timeout: Option<WrittenTimeout>,
    #[serde(default)]
    keep_timeout: bool,
    #[serde(default)]
    removed: bool,
    #[serde(rename = "partition_id")]
    _partition_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct WrittenTimeout {
    clock: TimeoutClock,
    ms: Millis,
}

#[derive(Deserialize)]
struct WrittenEdit {
    edit: Edit,
}

impl ImportLine {
    /// Reads a line. An error is a sentence without the place.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with(EDIT) {
            let written: WrittenEdit = serde_json::from_str(text).map_err(|error| without_line(&error))?;
            return Ok(ImportLine::Edit(written.edit));
        }
        if text.starts_with(EVENT) {
            return serde_json::from_str(text).map(ImportLine::Event).map_err(|error| without_line(&error));
        }
        if text.starts_with(PURGE) {
            let written: PurgeLine = serde_json::from_str(text).map_err(|error| without_line(&error))?;
            return Ok(ImportLine::Purge(written.purge));
        }
        ImportRow::parse(text).map(ImportLine::State)
    }
}

impl ImportRow {
    /// Reads a line. An error is a sentence without the place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let row: WrittenRow<'_> = serde_json::from_str(text).map_err(|error| without_line(&error))?;
        let value = match (row.value.filter(|value| value.get() != "null"), row.value_hex) {
            (Some(_), Some(_)) => return Err("the row has both value and value_hex".to_owned()),
            (Some(value), None) => Some(ImportValue::Json(value.get().to_owned())),
            (None, Some(digits)) => Some(ImportValue::Bytes(bytes_of(&digits)?)),
            (None, None) if row.timeout.is_none() && !row.removed => {
                return Err("the row has neither a value nor a timeout".to_owned());
            }
            (None, None) => None,
        };
        if row.schema.is_some_and(|schema| !(1..SCHEMA_NUMBER_END).contains(&schema)) {
            return Err(format!("the schema is not a number from 1 and below {SCHEMA_NUMBER_END}"));
        }
        if row.removed && (value.is_some() || row.timeout.is_some() || row.keep_timeout) {
            return Err("the row is removed, and has a value or a timeout".to_owned());
        }
        if row.keep_timeout && row.timeout.is_some() {
            return Err("the row has a timeout, and keeps the one that is there: choose one".to_owned());
        }
        let timeout = row.timeout.map(|timeout| Timeout { clock: timeout.clock, at: timeout.ms });
        Ok(ImportRow {
            key: imported_key(row.key)?,
            value,
            schema: row.schema,
            timeout,
            keeps_timeout: row.keep_timeout,
        })
    }

    /// Whether the row can only be put as it is: a rule cannot be called for it.
    pub fn is_only_as_is(&self) -> bool {
        self.keeps_timeout || (self.value.is_none() && self.timeout.is_none())
    }

    /// The state's bytes in the format of the rule's states. An error is a sentence.
    pub fn state(&self, format: StateFormat) -> Result<Option<Vec<u8>>, String> {
        let text = match &self.value {
            None => return Ok(None),
            Some(ImportValue::Bytes(bytes)) => return Ok(Some(bytes.clone())),
            Some(ImportValue::Json(text)) => text,
        };
        match format {
            StateFormat::Json => Ok(Some(text.clone().into_bytes())),
            StateFormat::Msgpack => {
                let value: serde_json::Value = serde_json::from_str(text).map_err(|error| without_line(&error))?;
                rmp_serde::to_vec_named(&value).map(Some).map_err(|error| error.to_string())
            }
            StateFormat::Opaque => {
                Err("only the rule understands its states: give their bytes as value_hex".to_owned())
            }
        }
    }
}

/// A row is one line, and its place in the file is said already.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

fn bytes_of(digits: &str) -> Result<Vec<u8>, String> {
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2);
        text.and_then(|text| u8::from_str_radix(text, 16).ok())
    };
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| "value_hex is not made of pairs of hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_that_events_would_have() {
        for (key, expected) in [
            (r#""u1""#, "u1"),
            ("7", "7"),
            (r#"["acme",42]"#, r#"["acme",42]"#),
            (r#""[\"acme\",42]""#, r#"["acme",42]"#),
            ("true", "true"),
        ] {
            let row = ImportRow::parse(&format!("{{\"key\":{key},\"value\":1}}")).expect("the row is right");
            assert_eq!(String::from_utf8_lossy(&row.key), expected);
        }
    }

    #[test]
    fn states_are_encoded_as_the_rule_writes_them() {
        let row = ImportRow::parse(r#"{"key":"a","value":{"n":1}}"#).expect("the row is right");
        assert_eq!(row.state(StateFormat::Json), Ok(Some(br#"{"n":1}"#.to_vec())));
        assert_eq!(row.state(StateFormat::Msgpack), Ok(Some(vec![0x81, 0xa1, b'n', 1])));
        assert!(row.state(StateFormat::Opaque).is_err());
        let row = ImportRow::parse(r#"{"key":"a","value_hex":"00ff"}"#).expect("the row is right");
        for format in [StateFormat::Opaque, StateFormat::Json] {
            assert_eq!(row.state(format), Ok(Some(vec![0, 255])));
        }
        for wrong in [r#"{"key":"a","value_hex":"00f"}"#, r#"{"key":"a","value_hex":"zz"}"#] {
            assert!(ImportRow::parse(wrong).is_err(), "{wrong}");
        }
    }
}
