//! [`Rows`]: the rows of a file of states.

use crate::source::file::RECORD_BYTES_MAX;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The rows of a file without their line numbers.
pub(super) fn texts(path: &Path) -> Result<impl Iterator<Item = Option<String>>> {
    Ok(Rows::open(path)?.map(|row| row.ok().map(|(_, text)| text)))
}

fn cannot_read(path: &Path) -> String {
    format!("failed to read {}", path.display())
}

/// The rows of a file of states, without blank lines, each with its line number from 1.
pub(super) struct Rows {
    path: PathBuf,
    input: BufReader<File>,
    line: u64,
}

impl Rows {
    pub fn open(path: &Path) -> Result<Self> {
        let input = BufReader::new(File::open(path).with_context(|| cannot_read(path))?);
        Ok(Rows { path: path.to_owned(), input, line: 0 })
    }

    fn read(&mut self) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        // One byte more than may be, so that a line that is too long is seen without being held.
        let limit = RECORD_BYTES_MAX as u64 + 1;
        (&mut self.input).take(limit).read_until(b'\n', &mut bytes).with_context(|| cannot_read(&self.path))?;
        self.line += 1;
        let place = || format!("{} line {}", self.path.display(), self.line);
        ensure!((bytes.len() as u64) < limit, "{} has more than {RECORD_BYTES_MAX} bytes", place());
        if bytes.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8(bytes).with_context(|| format!("{} is not valid UTF-8", place()))?;
        // Some programs put a mark before UTF-8 text.
        Ok(Some(text.trim_start_matches('\u{feff}').trim().to_owned()))
    }
}

impl Iterator for Rows {
    type Item = Result<(u64, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read().transpose()? {
                Ok(text) if text.is_empty() => {}
                read => return Some(read.map(|text| (self.line, text))),
            }
        }
    }
}
