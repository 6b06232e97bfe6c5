//! Tests of CSV rows, through the source that reads them.

use super::*;
use crate::event::RecordBatch;
use crate::source::{FileOptions, FileSource, ReadLimit, Source};
use proptest::prelude::*;
use std::fs;

fn read_with(content: &[u8], options: FileOptions) -> Result<RecordBatch> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv"), content).unwrap();
    let mut source = FileSource::new(vec![folder.path().to_str().unwrap().to_owned()], options)?;
    let mut batch = RecordBatch::default();
    source.read(ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX }, &mut batch)?;
    Ok(batch)
}

fn read(content: &str) -> RecordBatch {
    read_with(content.as_bytes(), FileOptions::default()).unwrap()
}

fn rows(batch: &RecordBatch) -> Vec<(u64, &str)> {
    let text = |record| std::str::from_utf8(batch.text_of(record)).unwrap();
    batch.records.iter().map(|record| (record.line, text(record))).collect()
}

fn rejected(batch: &RecordBatch) -> Vec<(u64, &str, &str)> {
    batch.rejected.iter().map(|one| (one.line, one.reason, one.message.as_str())).collect()
}

#[test]
fn rows_become_objects_with_typed_values() {
    assert_eq!(
        rows(&read("id,n,ok,note\r\nx,1.50,true,\r\ny,-7,false,\"a, \"\"b\"\"\"\n")),
        [(2, r#"{"id":"x","n":1.50,"ok":true,"note":null}"#), (3, r#"{"id":"y","n":-7,"ok":false,"note":"a, \"b\""}"#)]
    );
}

#[test]
fn only_what_is_exactly_a_json_number_is_one() {
    for text in ["0", "-0", "12", "-1.5", "1e5", "1E-05", "0.10", "12345678901234567890123"] {
        assert_eq!(rows(&read(&format!("a\n{text}\n"))), [(2, format!("{{\"a\":{text}}}").as_str())]);
    }
    for text in ["007", "+1", " 1", "1 ", ".5", "5.", "1e", "0x1", "1e999", "NaN", "-", "True", "null", "1_0"] {
        assert_eq!(rows(&read(&format!("a\n{text}\n"))), [(2, format!("{{\"a\":\"{text}\"}}").as_str())]);
    }
}

#[test]
fn text_columns_stay_text() {
    let options = FileOptions { csv_text: vec!["zip".to_owned()], ..FileOptions::default() };
    let batch = read_with(b"zip,n\n12345,1\ntrue,2\n,3\n", options).unwrap();
    let texts: Vec<&str> = rows(&batch).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, [r#"{"zip":"12345","n":1}"#, r#"{"zip":"true","n":2}"#, r#"{"zip":"","n":3}"#]);
}

#[test]
fn a_quoted_line_break_belongs_to_the_cell_and_the_line_is_where_the_row_begins() {
    let batch = read("a,\"b\nb\"\n1,\"x\r\ny\n\"\n\n2,z\n");
    assert_eq!(rows(&batch), [(3, r#"{"a":1,"b\nb":"x\r\ny\n"}"#), (7, r#"{"a":2,"b\nb":"z"}"#)]);
    assert_eq!(batch.ranges[0].to, Position { offset: 23, line: 7 });
}

#[test]
fn a_wrong_number_of_cells_is_rejected() {
    let batch = read("a,b\n1\n1,2\n1,2,3\n");
    assert_eq!(rows(&batch), [(3, r#"{"a":1,"b":2}"#)]);
    assert_eq!(
        rejected(&batch),
        [
            (2, "csv-columns", "the row has 1 cells, the header has 2"),
            (4, "csv-columns", "the row has 3 cells, the header has 2")
        ]
    );
    assert_eq!(batch.rejected[1].text, b"1,2,3");
}

#[test]
fn a_header_without_or_with_equal_names_is_an_error() {
    for (content, expected) in [("a,,b\n", "has no name for column 2"), ("a,b,a\n", "names two columns a")] {
        let error = read_with(content.as_bytes(), FileOptions::default()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("a.csv"), "{error}");
    }
}

#[test]
fn rows_that_are_too_long_or_not_utf8_are_rejected() {
    let options = FileOptions { record_bytes_max: 20, ..FileOptions::default() };
    let content = [&b"a\n\"long\n"[..], &[b'x'; 900_000], b"\"\nb\xFFb\nc\n\"never closed\n"].concat();
    let batch = read_with(&content, options).unwrap();
    assert_eq!(rows(&batch), [(5, r#"{"a":"c"}"#), (6, "{\"a\":\"never closed\"}")]);
    let rejected = rejected(&batch);
    assert_eq!((rejected[0].0, rejected[0].1), (2, "record-too-long"));
    assert!(
        rejected[0].2.contains("has 900007 bytes") && rejected[0].2.contains("a quote without"),
        "{}",
        rejected[0].2
    );
    assert_eq!((rejected[1].0, rejected[1].1), (4, "invalid-utf8"));
    assert!(rejected[1].2.contains("offset 1"), "{}", rejected[1].2);
}

#[test]
fn a_byte_order_mark_does_not_hide_a_quoted_name() {
    assert_eq!(rows(&read("\u{feff}\"a\",b\n1,2\n")), [(2, r#"{"a":1,"b":2}"#)]);
}

#[test]
fn a_followed_header_waits_for_its_line_break() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(&path, "a,b").unwrap();
    let options = FileOptions { follow: true, ..FileOptions::default() };
    let mut source = FileSource::new(vec![path.to_str().unwrap().to_owned()], options).unwrap();
    let limit = ReadLimit { records_max: 9, bytes_max: 999 };
    for (content, expected) in [("a,b", vec![]), ("a,bc\n1,2", vec![]), ("a,bc\n1,2\n", vec![(2, r#"{"a":1,"bc":2}"#)])]
    {
        fs::write(&path, content).unwrap();
        let mut batch = RecordBatch::default();
        source.read(limit, &mut batch).unwrap();
        assert_eq!(rows(&batch), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Rows and cells are those of the `csv` crate, whatever is quoted how badly.
    #[test]
    fn rows_are_those_of_the_csv_crate(content in "[a1,\" \n]{0,40}") {
        let mut ours = Vec::new();
        let mut rest = content.as_bytes();
        let mut scratch = Vec::new();
        while !rest.is_empty() {
            let Some(end) = RowEnd::default().find(rest) else { break };
            let row = strip(&rest[..end], 1);
            rest = &rest[end..];
            if row.is_empty() {
                continue;
            }
            let (mut at, mut cells) = (0, Vec::new());
            while let Some(cell) = next_cell(row, &mut at, &mut scratch) {
                cells.push(String::from_utf8(cell.to_vec()).unwrap());
            }
            ours.push(cells);
        }
        let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(content.as_bytes());
        let theirs: Vec<Vec<String>> =
            reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        // Of a last row without its end, what is missing is guessed differently: compared is what is complete.
        prop_assert!(theirs.len() <= ours.len() + 1);
        prop_assert_eq!(&ours[..], &theirs[..ours.len()]);
    }
}
