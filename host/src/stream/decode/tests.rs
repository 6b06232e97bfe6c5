//! Bodies of all kinds, and bodies that are none.

use super::*;

const EVENT: &str = r#"{"specversion":"1.0","id":"7","source":"/shop","type":"paid","data":{"user":"u1"}}"#;

fn body<'b>(content_type: &'b str, bytes: &'b str) -> Body<'b> {
    Body { content_type: Some(content_type), headers: &[], bytes: bytes.as_bytes() }
}

fn texts(body: &Body<'_>) -> Vec<String> {
    let events = decode(body, 1000, 10).unwrap_or_else(|error| panic!("{error}"));
    events.iter().map(|event| String::from_utf8(event.json().to_vec()).unwrap()).collect()
}

fn refused(body: &Body<'_>) -> (&'static str, Option<Place>) {
    let error = decode(body, 100, 3).expect_err("it is refused");
    (error.refusal.code, error.place)
}

#[test]
fn lines_arrays_and_single_objects_are_events() {
    let (first, second) = (r#"{"a": 1}"#.to_owned(), r#"{"b":[2]}"#.to_owned());
    let both = vec![first.clone(), second.clone()];
    for content_type in ["application/x-ndjson", "application/jsonl", "Application/NDJSON; charset=UTF-8"] {
        assert_eq!(texts(&body(content_type, &format!("\n{first}\r\n \n{second}"))), both);
    }
    assert_eq!(texts(&body("application/json", &format!(" [{first},\n{second} ] "))), both);
    assert_eq!(texts(&body("application/json;charset=\"utf-8\"", &first)), [first]);
    assert_eq!(texts(&body("application/json", "{\n  \"a\": 1\n}")), [r#"{"a":1}"#]);
    assert!(texts(&body("application/json", "[]")).is_empty());
    assert!(texts(&body("application/x-ndjson", "\n")).is_empty());
}

#[test]
fn cloud_events_are_kept_whole_and_known_by_source_and_id() {
    let batch = format!("[{EVENT},{}]", EVENT.replace("\"7\"", "\"8\""));
    let events = decode(&body("application/cloudevents-batch+json", &batch), 1000, 10).unwrap();
    assert_eq!(events.iter().map(|event| event.id().unwrap()).collect::<Vec<_>>(), ["/shop/7", "/shop/8"]);
    assert_eq!(events[0].json(), EVENT.as_bytes());
    assert_eq!(texts(&body("application/cloudevents+json", EVENT)), [EVENT]);
    let escaped = EVENT.replace("/shop", "\\/sh\\u006fp");
    let events = decode(&body("application/cloudevents+json", &escaped), 1000, 10).unwrap();
    assert_eq!(events[0].id(), Some("/shop/7"));
}

#[test]
fn a_binary_cloud_event_becomes_the_structured_one() {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = vec![
        header("ce-specversion", "1.0"),
        header("ce-id", "7"),
        header("accept", "*/*"),
        header("ce-source", "/caf%C3%A9"),
        header("ce-type", "paid"),
        header("ce-subject", "a \"b\""),
    ];
    let binary = |content_type, bytes| Body { content_type, headers: &headers, bytes };
    let attributes = r#"{"specversion":"1.0","id":"7","source":"/café","type":"paid","subject":"a \"b\"""#;
    for (content_type, bytes, rest) in [
        (Some("application/json"), "{\"u\": 1}", r#","datacontenttype":"application/json","data":{"u": 1}}"#),
        (Some("text/plain"), "hi\n", r#","datacontenttype":"text/plain","data":"hi\n"}"#),
        (Some("image/png"), "foo", r#","datacontenttype":"image/png","data_base64":"Zm9v"}"#),
        (None, "[1]", r#","data":[1]}"#),
        (None, "", "}"),
    ] {
        assert_eq!(texts(&binary(content_type, bytes.as_bytes())), [format!("{attributes}{rest}")]);
    }
    let decoded = decode(&binary(None, b""), 1000, 10).unwrap();
    assert_eq!(decoded[0].id(), Some("/café/7"));
    assert_eq!(refused(&binary(Some("application/json"), b"{")), ("invalid-json", None));
    for wrong in [header("ce-", "x"), header("ce-data", "x"), header("ce-a_b", "x"), header("ce-id", "8")] {
        let headers = [headers.clone(), vec![wrong]].concat();
        let found = refused(&Body { content_type: None, headers: &headers, bytes: b"" });
        assert_eq!(found, ("invalid-cloudevent", None));
    }
}

#[test]
fn what_cannot_be_taken_is_refused_with_its_place() {
    let many = "{}\n".repeat(4);
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(100));
    for (content_type, bytes, code, place) in [
        ("application/x-ndjson", "{}\n\n{]\n", "invalid-json", Some(Place::Line(3))),
        ("application/x-ndjson", "{}\n17\n", "not-an-object", Some(Place::Line(2))),
        ("application/x-ndjson", many.as_str(), "too-many-events", None),
        ("application/x-ndjson", long.as_str(), "event-too-long", Some(Place::Line(1))),
        ("application/json", "[{},[]]", "not-an-object", Some(Place::Index(1))),
        ("application/json", "[{},{},{},{}]", "too-many-events", None),
        ("application/json", "[{},", "invalid-json", None),
        ("application/json", "[{}] {}", "invalid-json", None),
        ("application/json", "", "invalid-json", None),
        ("application/json", "null", "not-an-object", None),
        ("application/cloudevents+json", "[]", "not-an-object", None),
        ("application/cloudevents+json", "{}", "invalid-cloudevent", None),
        (
            "application/cloudevents-batch+json",
            "[{\"specversion\":\"0.3\"}]",
            "invalid-cloudevent",
            Some(Place::Index(0)),
        ),
        ("application/cloudevents+json", "{\"specversion\":\"1.0\",\"id\":7}", "invalid-cloudevent", None),
        ("application/json; charset=latin1", "{}", "unsupported-content-type", None),
        ("application/x-www-form-urlencoded", "{}", "unsupported-content-type", None),
    ] {
        assert_eq!(refused(&body(content_type, bytes)), (code, place), "{content_type}: {bytes}");
    }
    let error = decode(&Body { content_type: None, headers: &[], bytes: b"{}" }, 100, 3).unwrap_err();
    assert!(error.is_unsupported_type() && error.to_string().contains("application/x-ndjson"), "{error}");
    let error = decode(&body("application/x-ndjson", "{}\n{"), 100, 3).unwrap_err();
    assert!(error.to_string().starts_with("line 2: the event is not JSON"), "{error}");
}

#[test]
fn each_missing_attribute_of_a_cloud_event_is_named() {
    for name in ["specversion", "id", "source", "type"] {
        for value in ["", "null", "\"\""] {
            let mut event: serde_json::Map<String, serde_json::Value> = serde_json::from_str(EVENT).unwrap();
            match serde_json::from_str(value) {
                Ok(value) => event.insert(name.to_owned(), value),
                Err(_) => event.remove(name),
            };
            let text = serde_json::to_string(&event).unwrap();
            let error = decode(&body("application/cloudevents+json", &text), 1000, 10).unwrap_err();
            assert_eq!(error.to_string(), format!("the CloudEvent has no {name}"));
        }
    }
}
