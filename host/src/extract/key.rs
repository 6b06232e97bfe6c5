//! The key of a record, from its parts.

use super::decimal::Decimal;
use super::fields::invalid_json;
use super::{KEY_BYTES_MAX, Refusal};
use serde_json::value::RawValue;

/// Appends the key. One part: the text of a string, or the JSON text of a number or boolean. Several: a compact JSON array
/// of the parts, so that parts cannot be mixed up and keep their types.
pub(super) fn append(pointers: &[String], found: &[Option<&str>], keys: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
    let start = keys.len();
    match pointers {
        [pointer] => append_part(pointer, found[0], false, keys)?,
        _ => {
            for (index, (pointer, value)) in pointers.iter().zip(found).enumerate() {
                keys.push(if index == 0 { b'[' } else { b',' });
                append_part(pointer, *value, true, keys)?;
            }
            keys.push(b']');
        }
    }
    let bytes = keys.len() - start;
    if bytes > KEY_BYTES_MAX {
        let pointers = pointers.join(", ");
        let message = format!("the key ({pointers}) has {bytes} bytes, the limit is {KEY_BYTES_MAX}");
        return Err(Box::new(Refusal::new("key-too-long", message)));
    }
    Ok(())
}

/// The key that a row of imported state names: a part of its own, or an array of the parts of a composite key.
pub(super) fn imported(value: &RawValue) -> Result<Vec<u8>, String> {
    let mut key = Vec::new();
    let parts: Vec<&RawValue> = match value.get().as_bytes()[0] {
        b'[' => serde_json::from_str(value.get()).map_err(|error| error.to_string())?,
        _ => vec![value],
    };
    let pointers: Vec<String> = match parts.len() {
        1 => vec!["/key".to_owned()],
        count => (0..count).map(|part| format!("/key/{part}")).collect(),
    };
    if parts.is_empty() || parts.len() > super::KEY_PARTS_MAX {
        return Err(format!("the key has {} parts; 1 to {} are possible", parts.len(), super::KEY_PARTS_MAX));
    }
    let found: Vec<Option<&str>> = parts.into_iter().map(|part| Some(part.get())).collect();
    append(&pointers, &found, &mut key).map_err(|refusal| refusal.message)?;
    Ok(key)
}

fn append_part(pointer: &str, value: Option<&str>, quoted: bool, keys: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
    let refuse = |reason, what: &str| Err(Box::new(Refusal::new(reason, format!("the key {pointer} {what}"))));
    let Some(text) = value else { return refuse("missing-key", "is missing") };
    match text.as_bytes()[0] {
        b'"' => append_string(text, quoted, keys).map_err(|error| invalid_json(&error))?,
        b't' | b'f' => keys.extend_from_slice(text.as_bytes()),
        b'n' => return refuse("null-key", "is null"),
        b'{' => return refuse("unsupported-key", "is an object; a key is text, a number or a boolean"),
        b'[' => return refuse("unsupported-key", "is an array; a key is text, a number or a boolean"),
        _ => {
            let number = Decimal::parse(text).expect("what was read as JSON and is nothing else is a number");
            if !number.append_key(text, keys) {
                return refuse("unsupported-key", "is a number beyond the range of 64-bit floats");
            }
        }
    }
    Ok(())
}

/// Appends a string as text, or quoted as JSON in the one way that equal strings share.
fn append_string(json: &str, quoted: bool, keys: &mut Vec<u8>) -> serde_json::Result<()> {
    if !json.contains('\\') {
        let text = if quoted { json } else { &json[1..json.len() - 1] };
        keys.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    let text: String = serde_json::from_str(json)?;
    if quoted {
        serde_json::to_writer(keys, &text)?;
    } else {
        keys.extend_from_slice(text.as_bytes());
    }
    Ok(())
}
