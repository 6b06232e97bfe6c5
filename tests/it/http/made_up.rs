//! Manifests and uploads that nobody would send: what the fuzz targets claim, with fewer cases.

use crate::support::{manifests, rules, uploads};
use proptest::prelude::*;

/// Pieces that manifests are made of, right ones and wrong ones.
const PIECES: [&str; 28] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"inputs\"",
    "\"input\"",
    "\"stream\"",
    "\"s\"",
    "\"key\"",
    "[\"/k\"]",
    "\"event_time\"",
    "\"/at\"",
    "\"partitions\"",
    "4",
    "-1",
    "1e999",
    "null",
    "true",
    "\"parameters\"",
    "\"limits\"",
    "\"batch\"",
    "\"decide\"",
    "\"errors\"",
    "\"watermark_delay\"",
    "\"10s\"",
    "\"\\u0000\"",
];

/// One that is right, to be changed.
const RIGHT: &str = r#"{"inputs":{"input":{"stream":"s","key":["/k"],"event_time":"/at","watermark_delay":"10s"}},"partitions":2,
"parameters":{"a":1},"limits":{"fuel-per-group":1000},"batch":{"events":10,"interval":"1s"},"decide":{"deadline":"50ms","default":{}},
"errors":{"rollback_share":0.5,"quarantine_batches":3},"output":{"stream":"o"}}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_manifest_that_is_made_of_pieces_harms_the_server(pieces in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        manifests::check(text.as_bytes());
    }

    #[test]
    fn no_manifest_that_is_nearly_right_harms_the_server(changes in prop::collection::vec((0..RIGHT.len(), 0..PIECES.len(), 0..4_usize), 1..4)) {
        let mut text = RIGHT.as_bytes().to_vec();
        for (at, piece, removed) in changes {
            let at = at.min(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, PIECES[piece].bytes());
        }
        manifests::check(&text);
    }

    #[test]
    fn no_upload_harms_the_server_before_it_is_compiled(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        uploads::check(&bytes);
        uploads::check(&[b"\0asm\x01\0\0\0", bytes.as_slice()].concat());
        uploads::check(&[b"\0asm\x0d\0\x01\0", bytes.as_slice()].concat());
    }
}

#[test]
fn a_manifest_that_is_right_is_accepted_and_a_component_that_is_cut_off_is_not() {
    manifests::check(RIGHT.as_bytes());
    let checked = keyfold::service::Service::check_manifest("rule", RIGHT.as_bytes(), &Default::default());
    assert!(checked.is_ok(), "{checked:?}");
    let component = rules::guest("no-imports");
    for length in (0..component.len()).step_by(component.len() / 50) {
        uploads::check(&component[..length]);
    }
}
