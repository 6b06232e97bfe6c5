//! Bodies and files that nobody would send or write: what the fuzz targets claim, with fewer cases.

use crate::support::{bodies, folder, segments};
use proptest::prelude::*;

/// Pieces that bodies are made of.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\n",
    "\r\n",
    " ",
    "\"a\"",
    "\"id\":\"7\"",
    "\"specversion\":\"1.0\"",
    "\"source\":\"s\"",
    "\"type\":\"t\"",
    "1",
    "-0.5e3",
    "1e999",
    "null",
    "\"\\ud800\"",
    "\"\u{2028}\"",
    "{\"a\":[1,{}]}",
    "ce",
    "%ff",
    "\\",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_body_that_is_made_of_pieces_harms_anybody(media in any::<u8>(), pieces in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        bodies::check(&[&[media & 0x83], text.as_bytes()].concat());
    }

    #[test]
    fn no_body_of_any_bytes_harms_anybody(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        bodies::check(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_file_of_a_stream_harms_anybody_and_nothing_wrong_is_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        segments::check(&bytes, &folder::fast().path().join("stream"));
    }
}
