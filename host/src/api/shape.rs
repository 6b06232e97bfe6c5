//! Whether a document has the shape that was read from it. An object may stand as an array in JSON as far as serde is concerned,
//! with its members in their order: whoever sends that has made a mistake, and it would be read as something else.

use serde_json::Value;

/// The path of the first place where something else stands than an object that was read from it. None when there is no such place.
pub fn wrong_place(given: &Value, read: &Value) -> Option<String> {
    let within = |name: &str, given: &Value, read: &Value| {
        let place = wrong_place(given, read)?;
        Some(if place.is_empty() { name.to_owned() } else { format!("{name}.{place}") })
    };
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            given.iter().find_map(|(name, given)| within(name, given, read.get(name)?))
        }
        (Value::Array(given), Value::Array(read)) => given
            .iter()
            .zip(read)
            .enumerate()
            .find_map(|(number, (given, read))| within(&number.to_string(), given, read)),
        // What is absent may be null.
        (Value::Null, _) => None,
        (_, Value::Object(_)) => Some(String::new()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::model::{Manifest, NewTenant, StreamSettings};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    fn place_in<T: DeserializeOwned + Serialize>(given: Value) -> Option<String> {
        let read: T = serde_json::from_value(given.clone()).expect("serde takes it");
        wrong_place(&given, &serde_json::to_value(read).expect("it can be written"))
    }

    #[test]
    fn an_array_in_place_of_an_object_is_found_however_deep_it_is() {
        assert_eq!(place_in::<StreamSettings>(json!([null, null])).as_deref(), Some(""));
        assert_eq!(place_in::<NewTenant>(json!({ "name": "a", "quotas": [5] })).as_deref(), Some("quotas"));
        let manifest = json!({ "inputs": { "input": ["s", ["/k"]] } });
        assert_eq!(place_in::<Manifest>(manifest).as_deref(), Some("inputs.input"));
    }

    #[test]
    fn documents_as_they_should_be_have_no_wrong_place() {
        assert_eq!(place_in::<StreamSettings>(json!({ "partitions": 3, "key": null })), None);
        let manifest = json!({
            "inputs": { "input": { "stream": "s", "key": ["/k"] } },
            "parameters": { "a": [1, { "b": [] }] },
            "output": { "webhook": { "url": "https://a.example" } }
        });
        assert_eq!(place_in::<Manifest>(manifest), None);
    }
}
