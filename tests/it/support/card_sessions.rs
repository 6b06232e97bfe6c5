//! Rows of card sessions in tests: worked out, read, and compared with a panic.

mod reference;

use reference::{Reference, Rows};

/// What the input gives. `files` are the texts of its files in their order; the payments in them are in time order.
pub fn expected_rows<'t>(files: impl IntoIterator<Item = &'t str>) -> Rows {
    let mut reference = Reference::default();
    for text in files {
        reference.read(text).expect("the input is one of card sessions");
    }
    reference.finish().expect("the input ends all sessions")
}

/// The rows of outputs, one JSON object a line; lines of the user at the end are left out.
pub fn rows<'l>(lines: impl IntoIterator<Item = &'l str>) -> Rows {
    let mut rows = Rows::default();
    for line in lines {
        rows.read(line).expect("the outputs are rows of card sessions");
    }
    rows
}

/// Panics with some of the differences unless the rows are the same.
pub fn assert_same_rows(found: &Rows, expected: &Rows) {
    let difference = found.difference(expected);
    assert!(difference.is_none(), "of {} rows {difference}", expected.count());
}
