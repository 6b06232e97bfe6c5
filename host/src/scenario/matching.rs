//! Comparing what a scenario expects with what was found.

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// Sets a member that a JSON Pointer names, making the objects on the way.
pub(super) fn put(event: &mut Value, pointer: &str, value: Value) -> Result<()> {
    let mut place = event;
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        let object = place.as_object_mut().context("the event is not an object where its time should be")?;
        place = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    *place = value;
    Ok(())
}

/// Whether what was found has everything that is expected: objects may have more members, arrays may not have more items.
pub(super) fn holds(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().all(|(name, value)| found.get(name).is_some_and(|found| holds(value, found)))
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len() && expected.iter().zip(found).all(|(expected, found)| holds(expected, found))
        }
        (Value::Number(expected), Value::Number(found)) => expected == found || expected.as_f64() == found.as_f64(),
        _ => expected == found,
    }
}

/// What was found, cut down to the members that are expected and in their order, so that a diff shows what matters.
pub(super) fn narrow(expected: &Value, found: &Value) -> Value {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let kept = expected.iter().filter_map(|(name, expected)| Some((name, expected, found.get(name)?)));
            Value::Object(kept.map(|(name, expected, found)| (name.clone(), narrow(expected, found))).collect())
        }
        (Value::Array(expected), Value::Array(found)) => narrow_all(expected, found),
        _ => found.clone(),
    }
}

/// [`narrow`] for lists, also of different lengths.
pub(super) fn narrow_all(expected: &[Value], found: &[Value]) -> Value {
    found
        .iter()
        .enumerate()
        .map(|(number, found)| expected.get(number).map_or(found.clone(), |expected| narrow(expected, found)))
        .collect()
}

/// JSON over several lines, for a diff.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}
