//! Reads one file on from a position: its lines, or its CSV rows, as records.

use super::csv::{Header, Rows};
use super::lines::Lines;
use super::stored::StoredFile;
use super::{FileOptions, ReadLimit};
use crate::event::{Position, REJECTED_BYTES_MAX, Record, RecordBatch, Rejected};
use anyhow::{Result, ensure};
use memchr::memchr_iter;
use std::path::Path;

/// The mark that some programs put before UTF-8 text. It belongs to no record.
pub(super) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// What a line may hold besides its record: a byte order mark, a carriage return and a line feed.
pub(super) const FRAME_BYTES: usize = BOM.len() + 2;

/// Why reading a file stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The batch is full.
    Full,
    /// The file has nothing more at this moment.
    End,
}

/// An open file and how far its records have been taken.
pub(super) struct FileReader {
    stored: StoredFile,
    position: Position,
    rules: Rules,
    format: Format,
}

enum Format {
    Lines(Lines),
    Csv(Rows),
}

/// What holds for every record of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Longer records are rejected.
    pub record_bytes_max: usize,
    /// Whether what follows the last line break is a record. Not while its line break may still come.
    pub unterminated: bool,
}

impl FileReader {
    pub(super) fn open(path: &Path, from: Position, options: &FileOptions, unterminated: bool) -> Result<Self> {
        let rules = Rules { record_bytes_max: options.record_bytes_max, unterminated };
        let format = if is_csv(path) {
            let header = match from.offset {
                0 => None,
                _ => Some(Header::of_file(path, &options.csv_text, rules)?),
            };
            Format::Csv(Rows::new(path, options.csv_text.clone(), header))
        } else {
            Format::Lines(Lines::default())
        };
        Ok(FileReader { stored: StoredFile::open(path, from.offset)?, position: from, rules, format })
    }

    /// Where the next record begins.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// How far reading has come in the file as it is stored.
    pub(super) fn stored_offset(&self) -> Result<u64> {
        self.stored.stored_offset()
    }

    /// Reads on until the batch is full, the file ends, or the offset `until` is reached.
    pub(super) fn read(&mut self, limit: ReadLimit, until: u64, range: u32, batch: &mut RecordBatch) -> Result<Stop> {
        let mut taker = Taker { batch, range, limit, position: &mut self.position, rules: self.rules };
        match &mut self.format {
            Format::Lines(lines) => lines.read(&mut self.stored, until, &mut taker),
            Format::Csv(rows) => rows.read(&mut self.stored, until, &mut taker),
        }
    }
}

/// Whether the rows of a file are CSV, which its name says.
fn is_csv(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.trim_end_matches(".gz").trim_end_matches(".zst").ends_with(".csv")
}

/// Where records go: a batch with its limits, and the position that moves with each record.
pub(super) struct Taker<'b> {
    pub batch: &'b mut RecordBatch,
    pub range: u32,
    pub limit: ReadLimit,
    pub position: &'b mut Position,
    pub rules: Rules,
}

impl Taker<'_> {
    /// Whether a record whose text would end at `text_end` has to wait for the next batch. The first record never has
    /// to, so that every batch moves on.
    pub(super) fn is_full(&self, text_end: usize) -> bool {
        let started = self.range > 0 || *self.position != self.batch.ranges[0].from;
        started
            && (text_end > self.limit.bytes_max
                || self.batch.records.len() + self.batch.rejected.len() >= self.limit.records_max)
    }

    /// Moves behind a line or row of `bytes` bytes that holds `lines` lines, line breaks included.
    pub(super) fn move_on(&mut self, bytes: usize, lines: u64) {
        self.position.offset += bytes as u64;
        self.position.line += lines;
    }

    pub(super) fn accept(&mut self, start: usize, end: usize) {
        let line = self.position.line + 1;
        // The text of a batch stays below 4 GiB: see `TEXT_BYTES_MAX` and `RECORD_BYTES_MAX`.
        self.batch.records.push(Record { start: start as u32, end: end as u32, range: self.range, line });
    }

    pub(super) fn reject(&mut self, reason: &'static str, message: String, text: &[u8]) {
        let text = text[..text.len().min(REJECTED_BYTES_MAX)].to_vec();
        self.batch.rejected.push(Rejected { range: self.range, line: self.position.line + 1, reason, message, text });
    }

    pub(super) fn reject_too_long(&mut self, bytes: usize, hint: &str, text: &[u8]) {
        let max = self.rules.record_bytes_max;
        let message = format!("the record has {bytes} bytes, the limit is {max} (record_bytes_max){hint}");
        self.reject("record-too-long", message, text);
    }

    pub(super) fn reject_invalid_utf8(&mut self, offset: usize, text: &[u8]) {
        let message = format!("the record is not valid UTF-8: the byte at offset {offset} of the line is wrong");
        self.reject("invalid-utf8", message, text);
    }
}

/// How many bytes of the line at `offset` come before its record: the byte order mark at the start of a file.
pub(super) fn mark_bytes(line: &[u8], offset: u64) -> usize {
    if offset == 0 && line.starts_with(BOM) { BOM.len() } else { 0 }
}

/// A line without its line break and byte order mark.
pub(super) fn strip(line: &[u8], offset: u64) -> &[u8] {
    let line = &line[mark_bytes(line, offset)..];
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line or row that is longer than the limit: its beginning is kept, the rest only counted.
#[derive(Default)]
pub(super) struct LongLine {
    kept: Vec<u8>,
    bytes: usize,
    lines: u64,
    end: [u8; 2],
}

impl LongLine {
    /// What is kept lets the beginning be shown as if the whole line had been held.
    const KEPT_BYTES: usize = REJECTED_BYTES_MAX + FRAME_BYTES;

    pub(super) fn add(&mut self, part: &[u8]) {
        self.kept.extend_from_slice(&part[..part.len().min(Self::KEPT_BYTES - self.kept.len())]);
        self.bytes += part.len();
        self.lines += memchr_iter(b'\n', part).count() as u64;
        for byte in &part[part.len().saturating_sub(2)..] {
            self.end = [self.end[1], *byte];
        }
    }

    pub(super) fn reject(&self, hint: &str, taker: &mut Taker) {
        let offset = taker.position.offset;
        let mark = mark_bytes(&self.kept, offset);
        let line_break = 2 - strip(&self.end, 1).len();
        let record_bytes = self.bytes - mark - line_break;
        taker.reject_too_long(record_bytes, hint, &self.kept[mark..self.kept.len().min(mark + record_bytes)]);
        let unterminated = self.end[1] != b'\n';
        taker.move_on(self.bytes, self.lines + u64::from(unterminated));
    }
}

pub(super) fn check_options(options: &FileOptions) -> Result<()> {
    let (bytes, max) = (options.record_bytes_max, super::file::RECORD_BYTES_MAX);
    ensure!((1..=max).contains(&bytes), "record_bytes_max is {bytes}; it must be between 1 and {max}");
    Ok(())
}
