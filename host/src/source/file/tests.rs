//! Tests of reading files. The rules for lines come first, then files, following, errors and replay.

use super::*;
use crate::event::REJECTED_BYTES_MAX;
use crate::source::reader::BOM;
use proptest::prelude::*;
use std::fs::OpenOptions;
use std::io::Write;
use tempfile::TempDir;

const ALL: ReadLimit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };

/// What can be told apart about a batch: file, line and text of each record, then of each rejection with its reason.
type Seen = (Vec<(String, u64, String)>, Vec<(String, u64, &'static str, Vec<u8>)>);

fn seen(batch: &RecordBatch) -> Seen {
    let file = |range: u32| batch.ranges[range as usize].file.clone();
    let text = |record| String::from_utf8(batch.text_of(record).to_vec()).unwrap();
    (
        batch.records.iter().map(|record| (file(record.range), record.line, text(record))).collect(),
        batch.rejected.iter().map(|one| (file(one.range), one.line, one.reason, one.text.clone())).collect(),
    )
}

fn folder_with(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn source(folder: &TempDir, options: FileOptions) -> FileSource {
    FileSource::within(folder.path().to_owned(), vec![String::new()], options).unwrap()
}

fn followed(folder: &TempDir) -> FileSource {
    source(folder, FileOptions { follow: true, ..FileOptions::default() })
}

fn append(folder: &TempDir, name: &str, content: &[u8]) {
    OpenOptions::new().append(true).open(folder.path().join(name)).unwrap().write_all(content).unwrap();
}

fn read_all(source: &mut FileSource) -> RecordBatch {
    let mut batch = RecordBatch::default();
    assert_ne!(source.read(ALL, &mut batch).unwrap(), ReadStatus::More);
    batch
}

/// Line number and text of the records of one file with this content.
fn lines(content: &[u8]) -> Vec<(u64, String)> {
    let folder = folder_with(&[("a.jsonl", content)]);
    let batch = read_all(&mut source(&folder, FileOptions::default()));
    assert_eq!(batch.rejected, []);
    seen(&batch).0.into_iter().map(|(_, line, text)| (line, text)).collect()
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    seen(batch).0.into_iter().map(|(_, _, text)| text).collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn error_of(result: Result<impl Sized>) -> String {
    format!("{:#}", result.err().expect("an error"))
}

#[test]
fn carriage_returns_before_line_breaks_are_dropped() {
    assert_eq!(lines(b"a\r\nb\rc\r\nd\r"), [(1, "a".into()), (2, "b\rc".into()), (3, "d".into())]);
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_only() {
    assert_eq!(lines(&[BOM, b"a\n", BOM, b"b\n"].concat()), [(1, "a".into()), (2, "\u{feff}b".into())]);
    assert_eq!(lines(BOM), []);
}

#[test]
fn blank_lines_are_skipped_but_counted() {
    assert_eq!(lines(b"\n \t\r\na\n\n\nb\n  "), [(3, "a".into()), (6, "b".into())]);
}

#[test]
fn a_last_line_without_line_break_is_a_record() {
    assert_eq!(lines(b"a\nb"), [(1, "a".into()), (2, "b".into())]);
}

#[test]
fn a_followed_last_line_waits_for_its_line_break() {
    let folder = folder_with(&[("a.jsonl", b"a\nb")]);
    let mut source = followed(&folder);
    assert_eq!(texts(&read_all(&mut source)), ["a"]);
    assert_eq!(texts(&read_all(&mut source)), [""; 0]);
    append(&folder, "a.jsonl", b"c\nd");
    let batch = read_all(&mut source);
    assert_eq!(seen(&batch).0, [("a.jsonl".into(), 2, "bc".into())]);
    assert_eq!(batch.ranges[0].from, Position { offset: 2, line: 1 });
}

#[test]
fn a_record_beyond_the_limit_is_rejected_and_cut() {
    for (record_bytes_max, size) in [(10, 11), (10, 5000), (5000, 5001), (5000, 700_000), (700_000, 700_001)] {
        for (mark, ending) in [(&b""[..], &b"\n"[..]), (b"", b"\r\n"), (BOM, b"\r\n"), (BOM, b"\n")] {
            for fits in [false, true] {
                let record = vec![b'x'; if fits { record_bytes_max } else { size }];
                let content = [mark, &record, ending, b"b\n"].concat();
                let folder = folder_with(&[("a.jsonl", &content)]);
                let options = FileOptions { record_bytes_max, ..FileOptions::default() };
                let batch = read_all(&mut source(&folder, options));
                assert_eq!(texts(&batch).last().unwrap(), "b");
                assert_eq!(batch.records.last().unwrap().line, 2);
                if fits {
                    assert_eq!(batch.rejected, []);
                    continue;
                }
                let rejected = &batch.rejected[0];
                assert_eq!((rejected.line, rejected.reason), (1, "record-too-long"));
                assert_eq!(rejected.text, &record[..size.min(REJECTED_BYTES_MAX)]);
                let expected = format!("has {size} bytes, the limit is {record_bytes_max} (record_bytes_max)");
                assert!(rejected.message.contains(&expected), "{}", rejected.message);
            }
        }
    }
}

#[test]
fn a_long_record_is_never_held_in_memory() {
    let content = [vec![b'x'; 20 << 20], b"\nb\n".to_vec()].concat();
    let folder = folder_with(&[("a.jsonl", &content)]);
    let options = FileOptions { record_bytes_max: 1000, ..FileOptions::default() };
    let batch = read_all(&mut source(&folder, options));
    assert_eq!((batch.rejected.len(), texts(&batch)), (1, vec!["b".to_owned()]));
    assert!(batch.text.capacity() < 1 << 20, "{}", batch.text.capacity());
}

#[test]
fn a_record_that_is_not_utf8_is_rejected() {
    let folder = folder_with(&[("a.jsonl", b"a\nb\xFFc\nd\xC3\n\xC3\xA4\n")]);
    let batch = read_all(&mut source(&folder, FileOptions::default()));
    assert_eq!(texts(&batch), ["a", "ä"]);
    let rejected: Vec<_> = batch.rejected.iter().map(|one| (one.line, one.reason, &one.text[..])).collect();
    assert_eq!(rejected, [(2, "invalid-utf8", &b"b\xFFc"[..]), (3, "invalid-utf8", b"d\xC3")]);
    assert!(batch.rejected[0].message.contains("offset 1 of the line"), "{}", batch.rejected[0].message);
}

#[test]
fn a_batch_spans_files_in_name_order_and_continues_in_the_middle_of_one() {
    let folder = folder_with(&[("b.jsonl", b"3\n4\n5\n"), ("a.jsonl", b"1\n2\n"), ("_c.jsonl", b"no\n")]);
    let mut source = source(&folder, FileOptions::default());
    let mut batch = RecordBatch::default();
    let limit = ReadLimit { records_max: 3, bytes_max: usize::MAX };
    assert_eq!(source.read(limit, &mut batch).unwrap(), ReadStatus::More);
    assert_eq!(texts(&batch), ["1", "2", "3"]);
    let files: Vec<_> =
        batch.ranges.iter().map(|range| (range.file.as_str(), range.to.offset, range.to.line)).collect();
    assert_eq!(files, [("a.jsonl", 4, 2), ("b.jsonl", 2, 1)]);
    let rest = read_all(&mut source);
    assert_eq!(texts(&rest), ["4", "5"]);
    assert_eq!(rest.records[0].line, 2);
    assert_eq!(source.status()[0].bytes, Some((10, 10)));
}

#[test]
fn a_second_read_into_the_same_batch_extends_the_range() {
    let folder = folder_with(&[("a.jsonl", b"1\n2\n3\n")]);
    let mut source = source(&folder, FileOptions::default());
    let mut batch = RecordBatch::default();
    for records_max in 1..=3 {
        source.read(ReadLimit { records_max, bytes_max: usize::MAX }, &mut batch).unwrap();
        assert_eq!((batch.ranges.len(), batch.records.len()), (1, records_max));
    }
}

#[test]
fn the_limit_of_bytes_holds_except_for_a_first_record() {
    let folder = folder_with(&[("a.jsonl", b"aaaaaaaaaa\nb\nc\nd\n")]);
    let mut source = source(&folder, FileOptions::default());
    let mut sizes = Vec::new();
    loop {
        let mut batch = RecordBatch::default();
        let status = source.read(ReadLimit { records_max: usize::MAX, bytes_max: 4 }, &mut batch).unwrap();
        sizes.push(batch.text.len());
        if status == ReadStatus::Ended {
            break;
        }
    }
    assert_eq!(sizes, [11, 4, 2]);
}

#[test]
fn followed_files_that_come_later_are_read_wherever_they_sort() {
    let folder = folder_with(&[("b.jsonl", b"1\n")]);
    let mut source = followed(&folder);
    assert_eq!(texts(&read_all(&mut source)), ["1"]);
    fs::write(folder.path().join("a.jsonl"), "2\n").unwrap();
    fs::write(folder.path().join("c.jsonl"), "3\n").unwrap();
    assert_eq!(texts(&read_all(&mut source)), ["2", "3"]);
}

#[test]
fn a_followed_file_that_grew_is_not_read_on_behind_others_in_the_same_batch() {
    let folder = folder_with(&[("a.jsonl", b"1\n"), ("b.jsonl", b"2\n")]);
    let mut source = followed(&folder);
    let mut batch = RecordBatch::default();
    assert_eq!(source.read(ALL, &mut batch).unwrap(), ReadStatus::Caught);
    append(&folder, "a.jsonl", b"3\n");
    assert_eq!(source.read(ALL, &mut batch).unwrap(), ReadStatus::More);
    assert_eq!(texts(&batch), ["1", "2"]);
    assert_eq!(texts(&read_all(&mut source)), ["3"]);
}

#[test]
fn a_followed_compressed_file_is_read_when_it_is_complete() {
    let content = b"1\n2\n";
    for (name, stored) in [("a.jsonl.gz", gzip(content)), ("a.jsonl.zst", zstd::encode_all(&content[..], 1).unwrap())] {
        let folder = folder_with(&[(name, b"")]);
        let mut source = followed(&folder);
        for part in stored.chunks(7) {
            assert_eq!(texts(&read_all(&mut source)), [""; 0]);
            append(&folder, name, part);
        }
        // The size has to come to rest first.
        assert_eq!(texts(&read_all(&mut source)), [""; 0]);
        assert_eq!(texts(&read_all(&mut source)), ["1", "2"], "{name}");
        append(&folder, name, &stored);
        read_all(&mut source);
        assert_eq!(texts(&read_all(&mut source)), ["1", "2"], "another member");
    }
}

#[test]
fn a_compressed_file_that_is_cut_short_is_an_error_and_loses_nothing() {
    let stored = gzip(b"1\n2\n");
    let folder = folder_with(&[("a.jsonl", b"0\n"), ("b.jsonl.gz", &stored[..stored.len() - 3])]);
    let mut source = source(&folder, FileOptions::default());
    let mut batch = RecordBatch::default();
    let error = error_of(source.read(ALL, &mut batch));
    assert!(error.contains("b.jsonl.gz is cut short"), "{error}");
    assert_eq!((batch.records.len(), batch.ranges.len(), batch.text.len()), (0, 0, 0));
    fs::write(folder.path().join("b.jsonl.gz"), stored).unwrap();
    assert_eq!(texts(&read_all(&mut source)), ["0", "1", "2"]);
}

#[test]
fn seeking_continues_files_and_begins_those_without_a_position() {
    let content = b"1\n2\n3\n";
    let folder = folder_with(&[("a.jsonl", content), ("b.jsonl.gz", &gzip(content)), ("c.jsonl", content)]);
    let mut source = source(&folder, FileOptions::default());
    let at = |offset, line| Position { offset, line };
    let positions = [("a.jsonl", at(6, 3)), ("b.jsonl.gz", at(4, 2)), ("gone.jsonl", at(9, 9))];
    source.seek(&positions.map(|(name, position)| ((InputId(0), name.to_owned()), position)).into()).unwrap();
    let batch = read_all(&mut source);
    let expected = [("b.jsonl.gz", 3, "3"), ("c.jsonl", 1, "1"), ("c.jsonl", 2, "2"), ("c.jsonl", 3, "3")];
    assert_eq!(seen(&batch).0, expected.map(|(file, line, text)| (file.to_owned(), line, text.to_owned())));
}

#[test]
fn a_file_that_became_shorter_is_an_error() {
    let folder = folder_with(&[("a.jsonl", b"1\n2\n")]);
    let mut source = followed(&folder);
    let batch = read_all(&mut source);
    fs::write(folder.path().join("a.jsonl"), "1\n").unwrap();
    let mut again = RecordBatch::default();
    for error in [error_of(source.read(ALL, &mut again)), error_of(source.replay(&batch.ranges, &mut again))] {
        assert!(error.contains("a.jsonl has 2 bytes, but 4 were already read"), "{error}");
    }
}

#[test]
fn a_replay_of_what_is_gone_or_was_changed_is_an_error() {
    let folder = folder_with(&[("a.jsonl", b"1\n2\n3\n")]);
    let mut source = source(&folder, FileOptions::default());
    let mut batch = RecordBatch::default();
    source.read(ReadLimit { records_max: 1, bytes_max: usize::MAX }, &mut batch).unwrap();
    let mut rest = RecordBatch::default();
    source.read(ALL, &mut rest).unwrap();
    fs::write(folder.path().join("a.jsonl"), "1\n2222\n").unwrap();
    let error = error_of(source.replay(&rest.ranges, &mut RecordBatch::default()));
    assert!(error.contains("up to byte 6 it had 3 lines when it was read, now it has 2"), "{error}");
    fs::remove_file(folder.path().join("a.jsonl")).unwrap();
    let error = error_of(source.replay(&rest.ranges, &mut RecordBatch::default()));
    assert!(error.contains("a.jsonl again, of which 2 bytes were read before; put it back"), "{error}");
}

#[test]
fn a_pattern_that_means_nothing_is_an_error_unless_followed() {
    let patterns = vec!["nowhere/*.jsonl".to_owned()];
    let error = error_of(FileSource::new(patterns.clone(), FileOptions::default()));
    assert!(error.contains("no file matches nowhere/*.jsonl"), "{error}");
    let mut source = FileSource::new(patterns, FileOptions { follow: true, ..FileOptions::default() }).unwrap();
    assert_eq!(source.read(ALL, &mut RecordBatch::default()).unwrap(), ReadStatus::Caught);
    assert_eq!(source.status()[0].description, "files[nowhere/*.jsonl]");
}

#[test]
fn a_record_limit_out_of_range_is_an_error() {
    for record_bytes_max in [0, RECORD_BYTES_MAX + 1] {
        let options = FileOptions { follow: true, record_bytes_max, ..FileOptions::default() };
        assert!(error_of(FileSource::new(Vec::new(), options)).contains("record_bytes_max is"));
    }
}

/// Pieces of files: ordinary lines, and everything that has a rule of its own.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-z\",0-9]{1,12}(\r?\n|\n)".prop_map(String::into_bytes),
        1 => Just(b"x,\"two\r\nlines, \"\"quoted\"\"\",1\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b" \n".to_vec()),
        1 => Just(b"a,\xFF,b\n".to_vec()),
        1 => (30usize..9000).prop_map(|size| [vec![b'y'; size], b"\n".to_vec()].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Reading in small steps and reading these steps again both give what one large read gives.
    #[test]
    fn replaying_gives_what_was_read(
        pieces in prop::collection::vec(piece(), 0..40),
        marked in any::<bool>(),
        is_terminated in any::<bool>(),
        steps in prop::collection::vec((1usize..6, 1usize..200), 1..8),
        record_bytes_max in prop_oneof![Just(25usize), Just(5000)],
        restarts in any::<bool>(),
    ) {
        let mut content = if marked { BOM.to_vec() } else { Vec::new() };
        content.extend_from_slice(b"p,q,r\n");
        content.extend(pieces.concat());
        if !is_terminated {
            content.pop();
        }
        let half = content.len() / 2;
        let folder = folder_with(&[
            ("a.jsonl", &content),
            ("b.csv", &content),
            ("c.jsonl.gz", &[gzip(&content[..half]), gzip(&content[half..])].concat()),
            ("d.csv.gz", &gzip(&content)),
            ("e.jsonl.zst", &zstd::encode_all(&content[..], 1).unwrap()),
            ("f.jsonl", b"last\n"),
        ]);
        let options = FileOptions { record_bytes_max, ..FileOptions::default() };
        let whole = read_all(&mut source(&folder, options.clone()));

        let mut stepping = source(&folder, options.clone());
        let mut positions = Positions::new();
        let mut in_steps = Seen::default();
        for (records_max, bytes_max) in steps.into_iter().cycle() {
            if restarts {
                stepping = source(&folder, options.clone());
                stepping.seek(&positions).unwrap();
            }
            let mut batch = RecordBatch::default();
            let status = stepping.read(ReadLimit { records_max, bytes_max }, &mut batch).unwrap();
            prop_assert!(batch.records.len() + batch.rejected.len() <= records_max);
            let mut again = RecordBatch::default();
            stepping.replay(&batch.ranges, &mut again).unwrap();
            prop_assert_eq!(seen(&again), seen(&batch));
            prop_assert_eq!(&again.ranges, &batch.ranges);
            prop_assert_eq!(&again.rejected, &batch.rejected);
            for range in &batch.ranges {
                prop_assert_eq!(positions.insert((range.input, range.file.clone()), range.to).unwrap_or_default(), range.from);
            }
            let (records, rejected) = seen(&batch);
            in_steps.0.extend(records);
            in_steps.1.extend(rejected);
            if status == ReadStatus::Ended {
                break;
            }
        }
        prop_assert_eq!(in_steps, seen(&whole));
        for range in &whole.ranges {
            prop_assert_eq!(range.to, positions[&(range.input, range.file.clone())]);
        }
    }
}
