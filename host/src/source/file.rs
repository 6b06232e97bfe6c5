//! Files as a source: JSON lines or CSV, plain or compressed, a fixed set or one that grows.

use super::reader::{FileReader, Stop, check_options};
use super::stored::{Compression, is_complete, shorter};
use super::{ReadLimit, ReadStatus, Source, SourceStatus, listing};
use crate::event::{InputId, OffsetRange, Position, Positions, RecordBatch};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The default of [`FileOptions::record_bytes_max`]: far more than an event should have, little enough to hold many.
pub const RECORD_BYTES_MAX_DEFAULT: usize = 1 << 20;

/// What [`FileOptions::record_bytes_max`] may be at most.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// What one batch reads at most, whatever the limit says. Records are marked with 32-bit offsets, and a CSV row can
/// become several times as long as JSON.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// Which of the rule's inputs the files are.
    pub input: InputId,
    /// Whether more is waited for: files that come later, and lines added to plain files.
    pub follow: bool,
    /// Longer records are rejected, without being held in memory.
    pub record_bytes_max: usize,
    /// CSV columns whose cells stay text, even if they look like numbers.
    pub csv_text: Vec<String>,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions {
            input: InputId(0),
            follow: false,
            record_bytes_max: RECORD_BYTES_MAX_DEFAULT,
            csv_text: Vec::new(),
        }
    }
}

/// Reads files in name order.
///
/// - A pattern is a file, a glob, or a folder, whose files are read unless their names begin with `.` or `_`.
/// - The suffix says what a file is: `.gz` and `.zst` are decompressed, `.csv` has a header and rows, everything else is
///   lines of JSON. Blank lines are skipped.
/// - Followed, a file is read when it is seen, also when its name sorts before files that were read already, so that none
///   is lost. Plain files that grew are read on. A last line without its line break waits for it. A compressed file is
///   read when it is complete; to know that, it is decompressed twice.
/// - Not followed, the files are those that are there at the start, and a last line without line break is a record.
/// - A failed read leaves the batch and the position as they were.
pub struct FileSource {
    root: PathBuf,
    patterns: Vec<String>,
    options: FileOptions,
    files: BTreeMap<String, Known>,
    /// The files in which there may be more.
    ready: BTreeSet<String>,
    open: Option<(String, FileReader)>,
}

/// What is known of a file.
#[derive(Default)]
struct Known {
    position: Position,
    /// For progress: how much is stored, and how far into that reading has come.
    stored_bytes: u64,
    read_bytes: u64,
    /// The stored size at which nothing more could be read. Another size means that there may be more.
    exhausted_at: Option<u64>,
}

impl FileSource {
    /// Reads the files that the patterns mean.
    pub fn new(patterns: Vec<String>, options: FileOptions) -> Result<Self> {
        Self::within(PathBuf::new(), patterns, options)
    }

    /// As [`FileSource::new`], with patterns and names relative to `root`, so that positions survive its being moved.
    pub(crate) fn within(root: PathBuf, patterns: Vec<String>, options: FileOptions) -> Result<Self> {
        check_options(&options)?;
        let (files, ready) = Default::default();
        let mut source = FileSource { root, patterns, options, files, ready, open: None };
        source.scan()?;
        Ok(source)
    }

    /// Whether more can be read without looking for new files.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Looks for files that are new or have grown.
    fn scan(&mut self) -> Result<()> {
        let follow = self.options.follow;
        for name in listing::list(&self.root, &self.patterns, follow)? {
            let path = self.root.join(&name);
            let size = match fs::metadata(&path) {
                Ok(metadata) => metadata.len(),
                // Writers rename files when they are done with them.
                Err(error) if follow && error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
            };
            let is_plain = Compression::of(&name) == Compression::None;
            let known = self.files.entry(name.clone()).or_default();
            let changed_since_last_scan = known.stored_bytes != 0 && known.stored_bytes != size;
            known.stored_bytes = size;
            if is_plain {
                ensure!(size >= known.position.offset, shorter(&path, size, known.position.offset));
                known.read_bytes = known.position.offset;
            }
            if known.exhausted_at == Some(size) || (is_plain && size == known.position.offset) {
                continue;
            }
            // A compressed file is decompressed to see whether it is complete. Doing so again only when its size has come to
            // rest keeps a file that is being written from being decompressed at every scan.
            if follow && !is_plain && changed_since_last_scan {
                continue;
            }
            self.ready.insert(name);
        }
        Ok(())
    }

    fn read_on(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        let limit = ReadLimit { bytes_max: limit.bytes_max.min(TEXT_BYTES_MAX), ..limit };
        let mut has_scanned = false;
        loop {
            let Some(name) = self.ready.first().cloned() else {
                if !self.options.follow {
                    return Ok(ReadStatus::Ended);
                }
                if has_scanned {
                    return Ok(ReadStatus::Caught);
                }
                self.scan()?;
                has_scanned = true;
                continue;
            };
            let Some(range) = self.range_for(&name, batch) else { return Ok(ReadStatus::More) };
            if self.read_file(name, range, limit, batch)? == Stop::Full {
                return Ok(ReadStatus::More);
            }
        }
    }

    /// The range of a batch that reading on in this file extends, new if need be. None when the file has to wait for the
    /// next batch, because others were read after it and the records would no longer be in the order of the ranges.
    fn range_for(&self, name: &str, batch: &mut RecordBatch) -> Option<usize> {
        let (input, position) = (self.options.input, self.files[name].position);
        if position.offset > 0
            && let Some(range) = batch.ranges.iter().rposition(|range| range.input == input && range.file == name)
        {
            return (range + 1 == batch.ranges.len()).then_some(range);
        }
        batch.ranges.push(OffsetRange { input, file: name.to_owned(), from: position, to: position });
        Some(batch.ranges.len() - 1)
    }

    fn read_file(&mut self, name: String, range: usize, limit: ReadLimit, batch: &mut RecordBatch) -> Result<Stop> {
        let known = self.files.get_mut(&name).expect("files that are ready are known");
        let mut reader = match self.open.take() {
            Some((open, reader)) if open == name => reader,
            _ => {
                let path = self.root.join(&name);
                if self.options.follow && known.position.offset == 0 && !path.exists() {
                    // It was renamed before anything of it was read.
                    self.ready.remove(&name);
                    self.files.remove(&name);
                    drop_if_empty(range, batch);
                    return Ok(Stop::End);
                }
                let is_plain = Compression::of(&name) == Compression::None;
                if self.options.follow && !is_plain && !is_complete(&path)? {
                    known.exhausted_at = Some(known.stored_bytes);
                    self.ready.remove(&name);
                    drop_if_empty(range, batch);
                    return Ok(Stop::End);
                }
                FileReader::open(&path, known.position, &self.options, !self.options.follow)?
            }
        };
        let stop = reader.read(limit, u64::MAX, range as u32, batch)?;
        known.position = reader.position();
        known.read_bytes = reader.stored_offset()?;
        batch.ranges[range].to = known.position;
        drop_if_empty(range, batch);
        match stop {
            Stop::Full => self.open = Some((name, reader)),
            Stop::End => {
                known.exhausted_at = Some(known.read_bytes);
                self.ready.remove(&name);
            }
        }
        Ok(stop)
    }

    /// Undoes what a failed read did.
    fn restore(&mut self, before: Mark, batch: &mut RecordBatch) {
        self.open = None;
        for (index, range) in batch.ranges.iter().enumerate().skip(before.ranges.saturating_sub(1)) {
            let position = if index < before.ranges { before.last_to } else { range.from };
            if let Some(known) = self.files.get_mut(&range.file)
                && known.position != position
            {
                known.position = position;
                known.exhausted_at = None;
                self.ready.insert(range.file.clone());
            }
        }
        batch.ranges.truncate(before.ranges);
        if let Some(last) = batch.ranges.last_mut() {
            last.to = before.last_to;
        }
        batch.text.truncate(before.text);
        batch.records.truncate(before.records);
        batch.rejected.truncate(before.rejected);
    }
}

/// Takes back the last range when nothing of it was read.
fn drop_if_empty(range: usize, batch: &mut RecordBatch) {
    if batch.ranges[range].from == batch.ranges[range].to {
        batch.ranges.truncate(range);
    }
}

/// What a batch held before a read.
struct Mark {
    text: usize,
    records: usize,
    rejected: usize,
    ranges: usize,
    last_to: Position,
}

impl Mark {
    fn of(batch: &RecordBatch) -> Self {
        Mark {
            text: batch.text.len(),
            records: batch.records.len(),
            rejected: batch.rejected.len(),
            ranges: batch.ranges.len(),
            last_to: batch.ranges.last().map_or_else(Position::default, |range| range.to),
        }
    }
}

impl Source for FileSource {
    fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.open = None;
        self.ready.clear();
        let own = positions.iter().filter(|((input, _), _)| *input == self.options.input);
        self.files = own.map(|((_, name), &position)| (name.clone(), Known { position, ..Known::default() })).collect();
        self.scan()
    }

    fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        let before = Mark::of(batch);
        let result = self.read_on(limit, batch);
        if result.is_err() {
            self.restore(before, batch);
        }
        result
    }

    fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        let limit = ReadLimit { records_max: usize::MAX, bytes_max: u32::MAX as usize };
        for range in ranges {
            let path = self.root.join(&range.file);
            let name = path.display();
            // Where a range ends without a line break, its last line was a record then and is one now.
            let mut reader = FileReader::open(&path, range.from, &self.options, true)?;
            batch.ranges.push(range.clone());
            let index = batch.ranges.len() - 1;
            if reader.read(limit, range.to.offset, index as u32, batch)? == Stop::Full {
                bail!(
                    "{name}: the ranges hold more than {} bytes of text; replay fewer of them at once",
                    limit.bytes_max
                );
            }
            let (reached, to) = (reader.position(), range.to);
            ensure!(reached.offset >= to.offset, shorter(&path, reached.offset, to.offset));
            ensure!(
                reached == to,
                "{name} was changed: up to byte {} it had {} lines when it was read, now it has {}; restore it, or give new \
                 content a new name",
                to.offset,
                to.line,
                reached.line
            );
        }
        Ok(())
    }

    fn status(&self) -> Vec<SourceStatus> {
        let sum = |of: fn(&Known) -> u64| self.files.values().map(of).sum();
        vec![SourceStatus {
            description: format!("files[{}]", self.patterns.join(", ")),
            bytes: Some((sum(|known| known.read_bytes.min(known.stored_bytes)), sum(|known| known.stored_bytes))),
        }]
    }
}

#[cfg(test)]
mod tests;
