//! Tests of keys, event times and rejections.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;

fn batch_of(lines: &[&str]) -> RecordBatch {
    let mut batch = RecordBatch::default();
    for (index, line) in lines.iter().enumerate() {
        let start = batch.text.len() as u32;
        batch.text.extend_from_slice(line.as_bytes());
        let end = batch.text.len() as u32;
        batch.records.push(Record { start, end, range: 0, line: index as u64 + 1 });
    }
    batch
}

fn extract(keys: &[&str], time: Option<(&str, TimeFormat)>, lines: &[&str]) -> Extracted {
    let keys = keys.iter().map(|key| key.to_string()).collect();
    let extractor = Extractor::new(keys, time.map(|(pointer, format)| (pointer.to_owned(), format))).unwrap();
    let mut out = Extracted::default();
    extractor.extract(&batch_of(lines), 0..lines.len(), &mut out);
    out
}

/// The key of one record, or the reason and message of its rejection.
fn key(keys: &[&str], line: &str) -> Result<String, (&'static str, String)> {
    let out = extract(keys, None, &[line]);
    match out.rejected.first() {
        Some(rejected) => Err((rejected.reason, rejected.message.clone())),
        None => Ok(String::from_utf8(out.key_of(&out.events[0]).to_vec()).unwrap()),
    }
}

fn time(format: TimeFormat, value: &str) -> Result<i64, (&'static str, String)> {
    let out = extract(&["/k"], Some(("/t", format)), &[&format!(r#"{{"k":1,"t":{value}}}"#)]);
    match out.rejected.first() {
        Some(rejected) => Err((rejected.reason, rejected.message.clone())),
        None => Ok(out.events[0].time_ms),
    }
}

fn refused(result: Result<impl fmt::Debug, (&'static str, String)>, reason: &str, said: &str) {
    let (found, message) = result.unwrap_err();
    assert_eq!(found, reason, "{message}");
    assert!(message.contains(said), "{message}");
}

#[test]
fn events_are_small_and_carry_the_hash_of_their_key() {
    assert!(size_of::<Event>() <= 40);
    let out = extract(&["/k"], None, &[r#"{"k":"a"}"#, r#"{"k":"b"}"#, r#"{"k":"a"}"#]);
    let keys: Vec<_> = out.events.iter().map(|event| out.key_of(event)).collect();
    assert_eq!(keys, [b"a", b"b", b"a"]);
    assert_eq!(out.events[0].key_hash, out.events[2].key_hash);
    let group = crate::event::KeyGroup::of_hash(out.events[1].key_hash);
    assert_eq!(group, crate::event::KeyGroup::of(b"b"));
    assert_eq!((out.events[2].record, out.events[2].time_ms), (2, 0));
}

#[test]
fn a_single_key_is_text_or_the_json_of_a_number_or_boolean() {
    for (value, expected) in [
        (r#""acme""#, "acme"),
        (r#""""#, ""),
        (r#""\u00e4 \"q\" \n""#, "ä \"q\" \n"),
        (r#""42""#, "42"),
        ("42", "42"),
        ("42.0", "42"),
        ("4.2e1", "42"),
        ("-0", "0"),
        ("0.50", "0.5"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("true", "true"),
        ("false", "false"),
    ] {
        assert_eq!(key(&["/k"], &format!(r#"{{"k": {value} }}"#)).unwrap(), expected);
    }
}

#[test]
fn a_composite_key_keeps_its_parts_and_their_types() {
    for (line, expected) in [
        (r#"{"a":"acme","b":42}"#, r#"["acme",42]"#),
        (r#"{"b":42.0,"a":"\u0061cme"}"#, r#"["acme",42]"#),
        (r#"{"a":"42","b":"4\/2"}"#, r#"["42","4/2"]"#),
        (r#"{"a":"","b":true}"#, r#"["",true]"#),
        (r#"{"a":"q\"\u000a","b":1}"#, r#"["q\"\n",1]"#),
    ] {
        assert_eq!(key(&["/a", "/b"], line).unwrap(), expected);
    }
}

#[test]
fn pointers_reach_into_objects_and_arrays() {
    let line = r#"{"x":[0,{"y":"no"}],"user":{"ids":[7,{"a/b":"deep"}],"~":1,"2":"two"},"z":[[]]}"#;
    assert_eq!(key(&["/user/ids/1/a~1b"], line).unwrap(), "deep");
    assert_eq!(key(&["/user/~0"], line).unwrap(), "1");
    assert_eq!(key(&["/user/2"], line).unwrap(), "two");
    assert_eq!(key(&["/user/ids/0", "/x/1/y", "/user/ids/1/a~1b"], line).unwrap(), r#"[7,"no","deep"]"#);
    refused(key(&["/user/ids/2"], line), "missing-key", "/user/ids/2");
    refused(key(&["/user/ids/01"], line), "missing-key", "/user/ids/01");
    refused(key(&["/user/~0/below"], line), "missing-key", "below");
    refused(key(&["/z/0"], line), "unsupported-key", "array");
}

#[test]
fn a_pointer_may_lead_through_another() {
    let out = extract(&["/a"], Some(("/a/t", TimeFormat::EpochMs)), &[r#"{"a":{"t":5}}"#, r#"{"a":1}"#]);
    let reasons: Vec<_> = out.rejected.iter().map(|rejected| (rejected.line, rejected.reason)).collect();
    assert_eq!(reasons, [(1, "unsupported-key"), (2, "missing-event-time")]);
}

#[test]
fn the_key_and_the_event_time_may_be_one_field() {
    let out = extract(&["/t"], Some(("/t", TimeFormat::EpochS)), &[r#"{"t":5}"#]);
    assert_eq!((out.key_of(&out.events[0]), out.events[0].time_ms), (&b"5"[..], 5000));
}

#[test]
fn of_members_that_occur_twice_the_last_counts() {
    assert_eq!(key(&["/k"], r#"{"k":1,"k":2}"#).unwrap(), "2");
    assert_eq!(key(&["/a/b"], r#"{"a":{"b":1},"a":{"b":2}}"#).unwrap(), "2");
    refused(key(&["/a/b"], r#"{"a":{"b":1},"a":{}}"#), "missing-key", "/a/b");
    refused(key(&["/a/b"], r#"{"a":{"b":1},"a":3}"#), "missing-key", "/a/b");
}

#[test]
fn keys_that_are_none_are_rejected() {
    refused(key(&["/k"], "{}"), "missing-key", "/k is missing");
    refused(key(&["/k"], r#"{"k":null}"#), "null-key", "/k is null");
    refused(key(&["/k"], r#"{"k":{"a":1}}"#), "unsupported-key", "/k is an object");
    refused(key(&["/k"], r#"{"k":[1]}"#), "unsupported-key", "/k is an array");
    refused(key(&["/k"], r#"{"k":1e400}"#), "unsupported-key", "/k is a number beyond");
    refused(key(&["/a", "/k"], r#"{"a":1,"k":null}"#), "null-key", "/k is null");
    let long = format!(r#"{{"k":"{}"}}"#, "x".repeat(KEY_BYTES_MAX + 1));
    refused(key(&["/k"], &long), "key-too-long", "has 1025 bytes, the limit is 1024");
    assert!(key(&["/k"], &long.replacen('x', "", 1)).is_ok());
}

#[test]
fn the_whole_record_has_to_be_a_json_object() {
    refused(key(&["/k"], r#"{"k":1,}"#), "invalid-json", "at column 8");
    refused(key(&["/k"], r#"{"k":1} x"#), "invalid-json", "trailing characters at column 9");
    refused(key(&["/k"], r#"{"k":1,"z":[01]}"#), "invalid-json", "invalid number");
    refused(key(&["/k"], r#"{"k":1"#), "invalid-json", "EOF");
    refused(key(&["/k"], r#"{"k":"\ud800"}"#), "invalid-json", "");
    refused(key(&["/k"], "nonsense"), "invalid-json", "column");
    for line in ["[1]", "1", "null", "\"{}\""] {
        refused(key(&["/k"], line), "not-an-object", "not an object");
    }
    assert_eq!(key(&["/k"], " \t{\"k\":1} ").unwrap(), "1");
}

#[test]
fn a_rejected_record_leaves_its_neighbours_alone_and_is_cut() {
    let long = format!(r#"{{"a":"x","k":null,"z":"{}"}}"#, "z".repeat(9000));
    let out = extract(&["/a", "/k"], None, &[r#"{"a":1,"k":1}"#, &long, r#"{"a":2,"k":2}"#]);
    let keys: Vec<_> = out.events.iter().map(|event| (event.record, out.key_of(event))).collect();
    assert_eq!(keys, [(0, &b"[1,1]"[..]), (2, b"[2,2]")]);
    assert_eq!((out.rejected[0].line, out.rejected[0].text.len()), (2, REJECTED_BYTES_MAX));
}

#[test]
fn what_was_extracted_before_stays() {
    let extractor = Extractor::new(vec!["/k".to_owned()], None).unwrap();
    let mut out = Extracted::default();
    for line in [r#"{"k":"a"}"#, "{}", r#"{"k":"b"}"#] {
        extractor.extract(&batch_of(&[line]), 0..1, &mut out);
    }
    assert_eq!((out.events.len(), out.rejected.len()), (2, 1));
    assert_eq!((out.key_of(&out.events[0]), out.key_of(&out.events[1])), (&b"a"[..], &b"b"[..]));
}

#[test]
fn epoch_times_are_numbers_or_text_that_is_one() {
    use TimeFormat::{EpochMs, EpochS};
    for (format, value, expected) in [
        (EpochMs, "1700000000123", 1_700_000_000_123),
        (EpochMs, "1700000000123.9", 1_700_000_000_123),
        (EpochMs, "-0.5", -1),
        (EpochMs, "\"1700000000123\"", 1_700_000_000_123),
        (EpochS, "1700000000", 1_700_000_000_000),
        (EpochS, "1700000000.123", 1_700_000_000_123),
        (EpochS, "1.7e9", 1_700_000_000_000),
        (EpochS, "\"1700000000.5\"", 1_700_000_000_500),
        (EpochS, "-1", -1000),
    ] {
        assert_eq!(time(format, value), Ok(expected), "{value}");
    }
    for value in ["true", "{}", "[]", "\"\"", "\"soon\"", "\" 1\"", "\"0x1\""] {
        refused(time(EpochMs, value), "invalid-event-time", "/t is ");
    }
}

#[test]
fn rfc3339_times_have_any_offset() {
    use TimeFormat::Rfc3339;
    for (value, expected) in [
        ("\"2023-11-14T22:13:20Z\"", 1_700_000_000_000),
        ("\"2023-11-14T23:13:20.123+01:00\"", 1_700_000_000_123),
        ("\"2023-11-14T16:43:20.1239-05:30\"", 1_700_000_000_123),
        ("\"1969-12-31T23:59:59.9999Z\"", -1),
        ("\"0001-01-01T00:00:00Z\"", -62_135_596_800_000),
        ("\"2023-11-14T22:13:20\\u005a\"", 1_700_000_000_000),
    ] {
        assert_eq!(time(Rfc3339, value), Ok(expected), "{value}");
    }
    refused(time(Rfc3339, "\"2023-11-14T22:13:20\""), "invalid-event-time", "not rfc3339");
    refused(time(Rfc3339, "\"yesterday\""), "invalid-event-time", "\"yesterday\"");
    refused(time(Rfc3339, "1700000000"), "invalid-event-time", "for numbers choose epoch-ms");
}

#[test]
fn missing_and_impossible_event_times_are_told_apart() {
    use TimeFormat::{EpochMs, EpochS};
    refused(time(EpochMs, "null"), "missing-event-time", "/t is missing");
    let out = extract(&["/k"], Some(("/t", EpochMs)), &[r#"{"k":1}"#]);
    assert_eq!(out.rejected[0].reason, "missing-event-time");
    for (format, value, hint) in [
        (EpochMs, "1700000000000000", "microseconds"),
        (EpochMs, "1e30", "microseconds"),
        (EpochS, "1700000000000", "epoch-ms"),
        (EpochMs, "253402300800000", "253402300800000"),
        (EpochMs, "-62135596800001", "years 0001 to 9999"),
    ] {
        refused(time(format, value), "event-time-out-of-range", hint);
    }
    assert_eq!(time(EpochMs, "253402300799999"), Ok(253_402_300_799_999));
}

#[test]
fn pointers_are_checked_when_they_are_given() {
    let error = |keys: &[&str]| {
        let keys = keys.iter().map(|key| key.to_string()).collect();
        format!("{:#}", Extractor::new(keys, None).unwrap_err())
    };
    assert!(error(&[]).contains("has 0 parts"));
    assert!(error(&["user"]).contains("\"user\" is not a JSON Pointer"));
    assert!(error(&["/a~2"]).contains("\"/a~2\" is not a JSON Pointer"));
    assert!(error(&[""]).contains("names the whole record"));
    assert!(error(&["/a", "/a"]).contains("twice"));
}

#[test]
fn a_rule_gets_the_members_that_it_reads() {
    let extractor = Extractor::new(vec!["/k".to_owned()], Some(("/at/ms".to_owned(), TimeFormat::EpochMs))).unwrap();
    let payload = |members: &[&str], line: &str| {
        let members: Vec<_> = members.iter().map(|name| name.to_string()).collect();
        let mut out = Extracted::default();
        extractor.keeping(&members).extract(&batch_of(&[line]), 0..1, &mut out);
        let payload = out.payload_of(&out.events[0]).unwrap_or(line.as_bytes());
        String::from_utf8(payload.to_vec()).unwrap()
    };
    let line = r#"{"k":1, "at": {"ms" : 5}, "n":[1,{"n":2}], "text" : "a\n\"b" ,"n":3}"#;
    assert_eq!(payload(&["n"], line), r#"{"n":[1,{"n":2}],"n":3}"#, "the rule decides what a repeated member means");
    assert_eq!(payload(&["text", "at"], line), r#"{"at": {"ms" : 5},"text" : "a\n\"b"}"#);
    assert_eq!(payload(&["k", "z"], line), r#"{"k":1}"#);
    assert_eq!(payload(&["z"], line), "{}");
    assert_eq!(payload(&[], line), "{}");
    let escaped = r#"{"k":1,"at":{"ms":5},"\u006e":3,"z":0}"#;
    assert_eq!(payload(&["n"], escaped), escaped, "what is not cut comes whole");
}

#[test]
fn records_need_not_have_the_members_of_the_one_before() {
    let extractor = Extractor::new(vec!["/k".to_owned()], None).unwrap().keeping(&["n".to_owned()]);
    let lines = [
        r#"{"k":1,"n":1,"other":"a"}"#,
        r#"{"k":2,"n":2,"other":"b"}"#,
        r#"{"k": 3,"n":  3}"#,
        r#"{"n":4,"k":4}"#,
        r#"{"kn":0,"n":5,"k":5}"#,
        r#"{"k":6,"n":6,"other":"c","n":7}"#,
    ];
    let mut out = Extracted::default();
    extractor.extract(&batch_of(&lines), 0..lines.len(), &mut out);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let keys: Vec<String> = out.events.iter().map(|event| text(out.key_of(event))).collect();
    assert_eq!(keys, ["1", "2", "3", "4", "5", "6"]);
    let payloads: Vec<String> = out.events.iter().map(|event| text(out.payload_of(event).unwrap())).collect();
    let expected = [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":  3}"#, r#"{"n":4}"#, r#"{"n":5}"#, r#"{"n":6,"n":7}"#];
    assert_eq!(payloads, expected);
}

#[test]
fn a_record_that_is_none_leaves_no_payload() {
    let extractor = Extractor::new(vec!["/k".to_owned()], None).unwrap().keeping(&["n".to_owned()]);
    let mut out = Extracted::default();
    extractor.extract(&batch_of(&[r#"{"n":1}"#, r#"{"n":2,"k":null}"#, r#"{"n":3,"k":3}"#]), 0..3, &mut out);
    assert_eq!((out.rejected.len(), &out.payloads[..]), (2, &br#"{"n":3}"#[..]));
}

/// Records that are nearly JSON.
fn nearly_json() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        3 => select(vec!["{", "}", "[", "]", ",", ":", "\"", "\\", " ", "\n", "\t", "true", "false", "null", "nul", "\u{1}", "ä"]),
        2 => select(vec!["\"k\"", "\"a\"", "\"t\"", "\"a b\"", "\"\\u006b\"", "\"\\n\"", "\"\\x\"", "\"long enough for a word\""]),
        2 => select(vec!["0", "-0", "01", "1.5", "1.", ".5", "1e5", "1E+5", "1e", "-", "-1", "12345678901234567890"]),
        4 => select(vec!["{\"k\":1,\"a\":{\"t\":2}}", "\"k\":1", "\"a\":{\"t\":[]}", ",\"t\":", "{\"a\":", "[{}]", "[1,[2]]"]),
    ];
    proptest::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_fast_way_says_what_serde_says_or_nothing(
        before in nearly_json(),
        record in nearly_json(),
        is_wrapped in any::<bool>(),
    ) {
        let wrapped = |record: String| if is_wrapped { format!("{{\"t\":0,{record}}}") } else { record };
        let (before, text) = (wrapped(before), wrapped(record));
        let pointers = ["/k", "/a/t", "/a", "/t"].map(str::to_owned);
        let fields = Fields::new(pointers.iter()).unwrap();
        let (mut fast, mut slow) = ([None; 4], [None; 4]);
        let mut layout = Layout::default();
        let _ = fields.find(&before, &mut layout, &mut [None; 4], |_| {});
        let was_sure = fields.find(&text, &mut layout, &mut fast, |_| {});
        let said = fields.find_slowly(&text, &mut slow);
        prop_assert_eq!(was_sure.is_ok(), said.is_ok(), "{}", text);
        if said.is_ok() {
            prop_assert_eq!(fast, slow, "{}", text);
        }
    }
}
