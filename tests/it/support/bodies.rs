//! What is claimed of bodies that are posted to a stream, for bytes that the fuzzer or a test has made up.

use keyfold::stream::NewEvent;
use keyfold::stream::decode::{Body, decode};

const CONTENT_TYPES: [&str; 6] = [
    "application/x-ndjson",
    "application/json",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "text/plain",
    "image/png; charset=latin1",
];
const EVENT_BYTES_MAX: usize = 1000;
const EVENTS_MAX: usize = 50;

/// Whatever is posted: no panic, and what is accepted are events that every reader can hold, each on one line. The first byte says what
/// the rest is said to be.
pub fn check(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let is_binary = first & 0x80 != 0;
    // Of a binary CloudEvent the first line is an attribute.
    let (attribute, bytes) = match rest.iter().position(|&byte| byte == b'\n').filter(|_| is_binary) {
        Some(end) => (String::from_utf8_lossy(&rest[..end]).into_owned(), &rest[end + 1..]),
        None => (String::new(), rest),
    };
    let header = |name: &str, value: &str| (format!("ce-{name}"), value.to_owned());
    let (name, value) = attribute.split_once(':').unwrap_or(("subject", &attribute));
    let headers = match is_binary {
        true => vec![
            header("specversion", "1.0"),
            header("id", "1"),
            header("source", "s"),
            header("type", "t"),
            header(name, value),
        ],
        false => Vec::new(),
    };
    let content_type = CONTENT_TYPES.get(usize::from(first & 0x7f)).copied();
    match decode(&Body { content_type, headers: &headers, bytes }, EVENT_BYTES_MAX, EVENTS_MAX) {
        Ok(events) => {
            assert!(events.len() <= EVENTS_MAX);
            for event in events {
                let json = event.json();
                assert!(json.len() <= EVENT_BYTES_MAX && !json.contains(&b'\n') && !json.contains(&b'\r'));
                let value: serde_json::Value = serde_json::from_slice(json).expect("an event can be read");
                assert!(value.is_object(), "{value}");
                let again = NewEvent::new(json).expect("an event stays one");
                assert_eq!(again.json(), json);
            }
        }
        Err(error) => assert!(!error.refusal.code.is_empty() && error.to_string().len() < 5_000, "{error}"),
    }
}
