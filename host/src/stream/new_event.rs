//! [`NewEvent`]: an event that can be stored: JSON that every reader can hold, on one line.

use crate::source::file::RECORD_BYTES_MAX;
use memchr::memchr2;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// How deep an event may be nested. JSON readers give up at 128, and an event is put into other JSON before they see it.
pub const EVENT_DEPTH_MAX: usize = 100;

/// An event that can be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    json: Vec<u8>,
    id: Option<String>,
}

/// Why something cannot be an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable word for machines.
    pub code: &'static str,
    /// What is wrong, for people.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(code: &'static str, message: impl fmt::Display) -> Self {
        Refusal { code, message: message.to_string() }
    }
}

impl NewEvent {
    /// Checks that the bytes are one JSON value and puts it on one line.
    pub fn new(json: impl Into<Vec<u8>>) -> Result<Self, Refusal> {
        let mut json = json.into();
        check(&json).map_err(|error| Refusal::new("invalid-json", format!("the event is not JSON: {error}")))?;
        if memchr2(b'\n', b'\r', &json).is_some() {
            compact(&mut json);
        }
        if json.len() > RECORD_BYTES_MAX {
            return Err(too_long(json.len(), RECORD_BYTES_MAX));
        }
        Ok(NewEvent { json, id: None })
    }

    /// The same event with an id: of those with the same id the stream takes the first one only.
    pub fn with_id(self, id: impl Into<String>) -> Self {
        NewEvent { id: Some(id.into()), ..self }
    }

    /// The event.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    pub(super) fn into_json(self) -> Vec<u8> {
        self.json
    }

    /// The id that it brings.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

pub(super) fn too_long(bytes: usize, max: usize) -> Refusal {
    Refusal::new("event-too-long", format!("the event has {bytes} bytes, the limit is {max}"))
}

fn check(json: &[u8]) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Checked { depth: 0 }.deserialize(&mut reader)?;
    reader.end()
}

/// Takes white space between the tokens away.
fn compact(json: &mut Vec<u8>) {
    let (mut in_text, mut is_escaped) = (false, false);
    json.retain(|&byte| {
        if in_text {
            in_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            return true;
        }
        in_text = byte == b'"';
        !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
    });
}

/// Reads a JSON value and keeps nothing. Numbers and escapes are read, too, so that whoever reads the event later can.
struct Checked {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Checked {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl Checked {
    fn deeper<E: Error>(&self) -> Result<Checked, E> {
        match self.depth {
            EVENT_DEPTH_MAX => Err(E::custom(format_args!("it is nested deeper than {EVENT_DEPTH_MAX} levels"))),
            depth => Ok(Checked { depth: depth + 1 }),
        }
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self.deeper()?)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Checked { depth: 0 })?.is_some() {
            map.next_value_seed(self.deeper()?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn json(text: &str) -> String {
        String::from_utf8(NewEvent::new(text).unwrap().json().to_vec()).unwrap()
    }

    #[test]
    fn an_event_on_one_line_stays_as_it_was_sent_and_another_one_is_compacted() {
        assert_eq!(json(r#"{"a" : 1.50}"#), r#"{"a" : 1.50}"#);
        let pretty = "{\r\n  \"a \\\" \\\\\": [1,\n\t2.50e1],\n \"b\": \"x  y\"\n}\n";
        assert_eq!(json(pretty), r#"{"a \" \\":[1,2.50e1],"b":"x  y"}"#);
        let same: Value = serde_json::from_str(&json(pretty)).unwrap();
        assert_eq!(same, serde_json::from_str::<Value>(pretty).unwrap());
    }

    #[test]
    fn what_some_reader_could_not_hold_is_no_event() {
        let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(NewEvent::new(deep(EVENT_DEPTH_MAX)).is_ok());
        for text in ["", " ", "{", "{}{}", "1e999", "{\"a\":\"\\ud800\"}", "{a:1}", "nul", &deep(EVENT_DEPTH_MAX + 1)] {
            assert_eq!(NewEvent::new(text).unwrap_err().code, "invalid-json", "{text}");
        }
        assert_eq!(NewEvent::new(b"\"\xff\"").unwrap_err().code, "invalid-json");
    }
}
