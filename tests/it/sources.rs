//! From files and standard input to events, through the public interface.

use keyfold::event::{Positions, RecordBatch};
use keyfold::extract::{Extracted, Extractor, TimeFormat};
use keyfold::source::{FileOptions, FileSource, ReadLimit, ReadStatus, Source, StdinSpool};
use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;
use tempfile::TempDir;

fn limit(records_max: usize) -> ReadLimit {
    ReadLimit { records_max, bytes_max: 1 << 20 }
}

/// One folder with every kind of file, in name order; event `n` has the key `u<n mod 3>` and the time `n` seconds.
fn folder_of_all_kinds() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let json = |n: u64| format!("{{\"user\":{{\"id\":\"u{}\"}},\"at\":{n}}}\n", n % 3);
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).unwrap();
    write("a.jsonl", format!("{}\r\n{}not json\n", json(0).trim_end(), json(1)).as_bytes());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all((json(2) + &json(3)).as_bytes()).unwrap();
    write("b.jsonl.gz", &gzip.finish().unwrap());
    write("c.csv", b"user,at,note\n\"{}\",4,\"two\nlines\"\nu1,5\n");
    write("d.jsonl.zst", &zstd::encode_all((json(6) + &json(7)).as_bytes(), 1).unwrap());
    write("_SUCCESS", b"");
    folder
}

fn patterns(folder: &Path) -> Vec<String> {
    vec![folder.to_str().unwrap().to_owned()]
}

fn extractor() -> Extractor {
    Extractor::new(vec!["/user/id".to_owned()], Some(("/at".to_owned(), TimeFormat::EpochS))).unwrap()
}

/// Key and time of each event, and line and reason of each rejection.
type Described = (Vec<(String, i64)>, Vec<(u64, &'static str)>);

fn described(batch: &RecordBatch) -> Described {
    let mut out = Extracted::default();
    extractor().extract(batch, 0..batch.records.len(), &mut out);
    let key = |event| String::from_utf8(out.key_of(event).to_vec()).unwrap();
    let events = out.events.iter().map(|event| (key(event), event.time_ms)).collect();
    let rejected =
        batch.rejected.iter().chain(&out.rejected).map(|rejected| (rejected.line, rejected.reason)).collect();
    (events, rejected)
}

#[test]
fn files_of_all_kinds_become_events_and_the_rest_is_rejected_with_its_line() {
    let folder = folder_of_all_kinds();
    let mut source = FileSource::new(patterns(folder.path()), FileOptions::default()).unwrap();
    let mut batch = RecordBatch::default();
    assert_eq!(source.read(limit(100), &mut batch).unwrap(), ReadStatus::Ended);
    let (events, rejected) = described(&batch);
    let expected = [0, 1, 2, 3, 6, 7].map(|n| (format!("u{}", n % 3), n * 1000));
    assert_eq!(events, expected);
    assert_eq!(rejected, [(4, "csv-columns"), (3, "invalid-json"), (2, "missing-key")]);
    assert_eq!(batch.ranges.len(), 4);
}

#[test]
fn planned_ranges_replay_the_same_events_in_another_run() {
    let folder = folder_of_all_kinds();
    let open = || FileSource::new(patterns(folder.path()), FileOptions::default()).unwrap();
    let mut positions = Positions::new();
    let mut events = Vec::new();
    loop {
        // Every batch is read by a new run that knows only the positions.
        let mut source = open();
        source.seek(&positions).unwrap();
        let mut batch = RecordBatch::default();
        let status = source.read(limit(2), &mut batch).unwrap();
        let mut again = RecordBatch::default();
        open().replay(&batch.ranges, &mut again).unwrap();
        assert_eq!(described(&again), described(&batch));
        assert_eq!((&again.rejected, &again.ranges), (&batch.rejected, &batch.ranges));
        positions.extend(batch.ranges.iter().map(|range| ((range.input, range.file.clone()), range.to)));
        events.extend(described(&batch).0);
        if status == ReadStatus::Ended {
            break;
        }
    }
    assert_eq!(events.len(), 6);
}

#[test]
fn a_followed_folder_gives_what_is_added_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = FileOptions { follow: true, ..FileOptions::default() };
    let mut source = FileSource::new(patterns(folder.path()), options).unwrap();
    let mut seen = Vec::new();
    for content in [
        "",
        "{\"user\":{\"id\":1},\"at\":1}\n{\"user\"",
        "{\"user\":{\"id\":1},\"at\":1}\n{\"user\":{\"id\":2},\"at\":2}\n",
    ] {
        fs::write(folder.path().join("a.jsonl"), content).unwrap();
        let mut batch = RecordBatch::default();
        assert_eq!(source.read(limit(100), &mut batch).unwrap(), ReadStatus::Caught);
        seen.push(described(&batch).0.len());
    }
    assert_eq!(seen, [0, 1, 1]);
}

#[test]
fn standard_input_can_be_replayed_by_the_next_run() {
    let data = tempfile::tempdir().unwrap();
    let input = "{\"user\":{\"id\":\"a\"},\"at\":1}\n{\"user\":{\"id\":\"b\"},\"at\":2}";
    let mut first = StdinSpool::new(data.path(), Cursor::new(input), FileOptions::default()).unwrap();
    let mut batch = RecordBatch::default();
    while first.read(limit(100), &mut batch).unwrap() != ReadStatus::Ended {
        std::thread::yield_now();
    }
    assert_eq!(described(&batch).0, [("a".to_owned(), 1000), ("b".to_owned(), 2000)]);
    drop(first);
    let mut second = StdinSpool::new(data.path(), Cursor::new(""), FileOptions::default()).unwrap();
    let mut again = RecordBatch::default();
    second.replay(&batch.ranges, &mut again).unwrap();
    assert_eq!((described(&again), &again.ranges), (described(&batch), &batch.ranges));
}
