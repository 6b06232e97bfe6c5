//! Tests of the copy of standard input, with bytes as the input.

use super::*;
use std::io::Cursor;
use std::sync::mpsc::{Sender, channel};

const ALL: ReadLimit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };

fn spool(folder: &Path, input: impl Into<Vec<u8>>) -> StdinSpool {
    StdinSpool::new(folder, Cursor::new(input.into()), FileOptions::default()).unwrap()
}

fn texts(batch: &RecordBatch) -> Vec<&str> {
    batch.records.iter().map(|record| std::str::from_utf8(batch.text_of(record)).unwrap()).collect()
}

/// Reads until the input has ended; each read waits for nothing, so it is tried until the copying thread is done.
fn read_to_end(source: &mut StdinSpool) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    loop {
        let mut batch = RecordBatch::default();
        let status = source.read(ALL, &mut batch).unwrap();
        if !batch.ranges.is_empty() {
            batches.push(batch);
        }
        match status {
            ReadStatus::Ended => return batches,
            _ => thread::yield_now(),
        }
    }
}

fn all_texts(batches: &[RecordBatch]) -> Vec<&str> {
    batches.iter().flat_map(texts).collect()
}

/// An input that gives what is sent to it.
fn channel_input() -> (Sender<Vec<u8>>, impl Read + Send + 'static) {
    struct Parts(Receiver<Vec<u8>>);
    impl Read for Parts {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let part = self.0.recv().unwrap_or_default();
            into[..part.len()].copy_from_slice(&part);
            Ok(part.len())
        }
    }
    let (sender, receiver) = channel();
    (sender, Parts(receiver))
}

#[test]
fn the_input_is_copied_and_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = spool(folder.path(), "1\n2\n3");
    let batches = read_to_end(&mut source);
    assert_eq!(all_texts(&batches), ["1", "2", "3"]);
    assert_eq!(batches[0].ranges[0].file, "stdin/000000.jsonl");
    assert_eq!(fs::read(folder.path().join("stdin/000000.jsonl")).unwrap(), b"1\n2\n3\n");
    let mut again = RecordBatch::default();
    source.replay(&batches[0].ranges, &mut again).unwrap();
    assert_eq!((texts(&again), &again.records), (texts(&batches[0]), &batches[0].records));
}

#[test]
fn a_new_run_continues_behind_what_earlier_runs_copied() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = spool(folder.path(), "1\n2\n");
    while !first.has_ended {
        first.copy(usize::MAX).unwrap();
    }
    let mut batch = RecordBatch::default();
    first.read(ReadLimit { records_max: 1, bytes_max: usize::MAX }, &mut batch).unwrap();
    assert_eq!(texts(&batch), ["1"]);

    let mut second = spool(folder.path(), "3\n");
    let range = &batch.ranges[0];
    second.seek(&[((range.input, range.file.clone()), range.to)].into()).unwrap();
    assert_eq!(all_texts(&read_to_end(&mut second)), ["2", "3"]);
    assert!(folder.path().join("stdin/000001.jsonl").exists());
}

#[test]
fn half_a_line_of_a_killed_run_becomes_a_record_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("stdin")).unwrap();
    fs::write(folder.path().join("stdin/000007.jsonl"), "1\n{\"ha").unwrap();
    assert_eq!(all_texts(&read_to_end(&mut spool(folder.path(), "2\n"))), ["1", "{\"ha", "2"]);
    assert!(folder.path().join("stdin/000008.jsonl").exists());
}

#[test]
fn long_input_is_rolled_between_lines() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..1000).map(|line| "x".repeat(line % 37 + 1)).collect();
    let mut source = spool(folder.path(), lines.join("\n"));
    source.file_bytes_max = 1000;
    assert_eq!(all_texts(&read_to_end(&mut source)), lines);
    let mut files = 0;
    for entry in fs::read_dir(folder.path().join("stdin")).unwrap() {
        let content = fs::read(entry.unwrap().path()).unwrap();
        assert!(content.ends_with(b"\n") && content.len() < 1000 + 38, "{}", content.len());
        files += 1;
    }
    assert!(files > 15, "{files}");
}

#[test]
fn a_quiet_input_has_not_ended_and_a_line_waits_for_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, input) = channel_input();
    let mut source = StdinSpool::new(folder.path(), input, FileOptions::default()).unwrap();
    let mut batch = RecordBatch::default();
    assert_eq!(source.read(ALL, &mut batch).unwrap(), ReadStatus::Caught);
    sender.send(b"1\n2".to_vec()).unwrap();
    while batch.records.is_empty() {
        source.read(ALL, &mut batch).unwrap();
    }
    assert_eq!(texts(&batch), ["1"]);
    sender.send(b"2\n".to_vec()).unwrap();
    drop(sender);
    assert_eq!(all_texts(&read_to_end(&mut source)), ["22"]);
}

#[test]
fn a_failing_input_is_an_error_that_stays() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("unplugged"))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut source = StdinSpool::new(folder.path(), Failing, FileOptions::default()).unwrap();
    let error = loop {
        if let Err(error) = source.read(ALL, &mut RecordBatch::default()) {
            break format!("{error:#}");
        }
        thread::yield_now();
    };
    assert!(error.contains("cannot read standard input: unplugged"), "{error}");
    let error = source.read(ALL, &mut RecordBatch::default()).unwrap_err().to_string();
    assert!(error.contains("has failed before"), "{error}");
}
