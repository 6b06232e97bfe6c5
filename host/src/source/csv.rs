//! The rows of a CSV file as records: JSON objects whose members are named by the header.

use super::lines::is_blank;
use super::reader::{FRAME_BYTES, LongLine, Rules, Stop, Taker, mark_bytes, strip};
use super::stored::{BLOCK_BYTES, StoredFile};
use crate::event::Position;
use anyhow::{Context, Result, bail, ensure};
use memchr::{memchr, memchr_iter, memchr2};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The column names of one file.
pub(super) struct Header {
    columns: Vec<Column>,
}

struct Column {
    /// What stands before the value in the JSON text: `"name":`.
    prefix: String,
    /// Values stay text, whatever they look like.
    is_text: bool,
}

/// Finds the rows of a file and writes each as one line of JSON.
///
/// Rows are split here and not by the `csv` crate, because a row must be held back while its end may still come, must be
/// given up when it is longer than the limit, and has to begin and end at known offsets. What a row means is what the
/// crate says; a test compares them.
pub(super) struct Rows {
    path: PathBuf,
    text_columns: Vec<String>,
    header: Option<Header>,
    raw: Vec<u8>,
    raw_at: usize,
    scratch: Vec<u8>,
}

enum Row {
    Whole(Range<usize>),
    Long(LongLine),
    None,
}

/// Said with a row that is too long, because that is what usually happened.
const QUOTE_HINT: &str = "; a quote without its closing quote makes all that follows one cell";

impl Rows {
    pub(super) fn new(path: &Path, text_columns: Vec<String>, header: Option<Header>) -> Self {
        Rows { path: path.to_owned(), text_columns, header, raw: Vec::new(), raw_at: 0, scratch: Vec::new() }
    }

    pub(super) fn read(&mut self, stored: &mut StoredFile, until: u64, taker: &mut Taker) -> Result<Stop> {
        if self.header.is_none() {
            self.header = self.find_header(stored, until, taker.rules, taker.position)?;
        }
        let Some(header) = self.header.take() else { return Ok(Stop::End) };
        let stop = self.read_rows(&header, stored, until, taker);
        self.header = Some(header);
        stop
    }

    fn read_rows(&mut self, header: &Header, stored: &mut StoredFile, until: u64, taker: &mut Taker) -> Result<Stop> {
        loop {
            if taker.is_full(taker.batch.text.len()) {
                return Ok(Stop::Full);
            }
            match self.next_row(stored, until, taker.position.offset, taker.rules)? {
                Row::None => return Ok(Stop::End),
                Row::Long(row) => row.reject(QUOTE_HINT, taker),
                Row::Whole(row) => {
                    if !take_row(header, &self.raw[row.clone()], &mut self.scratch, taker) {
                        return Ok(Stop::Full);
                    }
                    self.raw_at = row.end;
                }
            }
        }
    }

    /// The first row that is not blank. None while it is not complete.
    fn find_header(
        &mut self,
        stored: &mut StoredFile,
        until: u64,
        rules: Rules,
        at: &mut Position,
    ) -> Result<Option<Header>> {
        loop {
            let range = match self.next_row(stored, until, at.offset, rules)? {
                Row::Whole(range) => range,
                Row::None => return Ok(None),
                Row::Long(_) => {
                    bail!("the header of {} is longer than {} bytes", self.path.display(), rules.record_bytes_max)
                }
            };
            let whole = &self.raw[range.clone()];
            let row = strip(whole, at.offset);
            let header = match is_blank(row) {
                true => None,
                false => Some(Header::parse(row, &self.text_columns, &self.path)?),
            };
            at.offset += whole.len() as u64;
            at.line += lines_in(whole);
            self.raw_at = range.end;
            if header.is_some() {
                return Ok(header);
            }
        }
    }

    /// Finds the row that begins at `raw_at`, reading on as far as needed. A whole one is not yet passed.
    fn next_row(&mut self, stored: &mut StoredFile, until: u64, offset: u64, rules: Rules) -> Result<Row> {
        let mut end = RowEnd::default();
        while offset == 0 && self.raw.len() < FRAME_BYTES && self.read_block(stored, until)? > 0 {}
        let mut searched = self.raw_at + mark_bytes(&self.raw[self.raw_at..], offset);
        loop {
            if let Some(found) = end.find(&self.raw[searched..]) {
                return Ok(Row::Whole(self.raw_at..searched + found));
            }
            if self.raw.len() - self.raw_at > rules.record_bytes_max + FRAME_BYTES {
                return self.skip_long_row(end, stored, until, rules);
            }
            let unsearched = self.raw.len() - self.raw_at;
            if self.read_block(stored, until)? == 0 {
                return Ok(match rules.unterminated && self.raw_at < self.raw.len() {
                    true => Row::Whole(self.raw_at..self.raw.len()),
                    false => Row::None,
                });
            }
            searched = self.raw_at + unsearched;
        }
    }

    fn skip_long_row(&mut self, mut end: RowEnd, stored: &mut StoredFile, until: u64, rules: Rules) -> Result<Row> {
        let mut long = LongLine::default();
        loop {
            long.add(&self.raw[self.raw_at..]);
            self.raw_at = self.raw.len();
            if self.read_block(stored, until)? == 0 {
                return Ok(if rules.unterminated { Row::Long(long) } else { Row::None });
            }
            if let Some(found) = end.find(&self.raw[self.raw_at..]) {
                long.add(&self.raw[self.raw_at..self.raw_at + found]);
                self.raw_at += found;
                return Ok(Row::Long(long));
            }
        }
    }

    /// Moves what is not yet used to the front and reads a block behind it.
    fn read_block(&mut self, stored: &mut StoredFile, until: u64) -> Result<usize> {
        self.raw.drain(..self.raw_at);
        self.raw_at = 0;
        self.raw.reserve(BLOCK_BYTES);
        stored.read_block(&mut self.raw, until)
    }
}

impl Header {
    /// Reads the header of a file that is read on from its middle.
    pub(super) fn of_file(path: &Path, text_columns: &[String], rules: Rules) -> Result<Self> {
        let mut rows = Rows::new(path, text_columns.to_vec(), None);
        let mut stored = StoredFile::open(path, 0)?;
        rows.find_header(&mut stored, u64::MAX, rules, &mut Position::default())?
            .with_context(|| format!("{} has no header, but rows of it were read before", path.display()))
    }

    fn parse(row: &[u8], text_columns: &[String], path: &Path) -> Result<Self> {
        let row = std::str::from_utf8(row).with_context(|| format!("the header of {} is not UTF-8", path.display()))?;
        let mut names: Vec<String> = Vec::new();
        let (mut at, mut scratch) = (0, Vec::new());
        while let Some(cell) = next_cell(row.as_bytes(), &mut at, &mut scratch) {
            let name = String::from_utf8_lossy(cell).into_owned();
            let number = names.len() + 1;
            ensure!(!name.is_empty(), "the header of {} has no name for column {number}", path.display());
            ensure!(!names.contains(&name), "the header of {} names two columns {name}; rename one", path.display());
            names.push(name);
        }
        let columns = names.iter().map(|name| Column {
            prefix: format!("{}:", serde_json::Value::from(name.as_str())),
            is_text: text_columns.contains(name),
        });
        Ok(Header { columns: columns.collect() })
    }

    /// Appends a row as a JSON object. With a wrong number of cells, gives that number and appends nothing.
    fn write_row(&self, row: &[u8], scratch: &mut Vec<u8>, text: &mut Vec<u8>) -> Result<(), usize> {
        let start = text.len();
        let (mut at, mut cells) = (0, 0);
        text.push(b'{');
        while let Some(cell) = next_cell(row, &mut at, scratch) {
            if let Some(column) = self.columns.get(cells) {
                if cells > 0 {
                    text.push(b',');
                }
                text.extend_from_slice(column.prefix.as_bytes());
                write_cell(cell, column.is_text, text);
            }
            cells += 1;
        }
        text.push(b'}');
        if cells == self.columns.len() {
            return Ok(());
        }
        text.truncate(start);
        Err(cells)
    }
}

/// Takes one row, or says that it has to wait for the next batch.
fn take_row(header: &Header, whole: &[u8], scratch: &mut Vec<u8>, taker: &mut Taker) -> bool {
    let row = strip(whole, taker.position.offset);
    let start = taker.batch.text.len();
    if row.len() > taker.rules.record_bytes_max {
        taker.reject_too_long(row.len(), QUOTE_HINT, row);
    } else if let Err(error) = std::str::from_utf8(row) {
        taker.reject_invalid_utf8(error.valid_up_to(), row);
    } else if !is_blank(row) {
        match header.write_row(row, scratch, &mut taker.batch.text) {
            Ok(()) => {
                let end = taker.batch.text.len();
                if taker.is_full(end) {
                    taker.batch.text.truncate(start);
                    return false;
                }
                taker.accept(start, end);
            }
            Err(cells) => {
                let message = format!("the row has {cells} cells, the header has {}", header.columns.len());
                taker.reject("csv-columns", message, row);
            }
        }
    }
    taker.move_on(whole.len(), lines_in(whole));
    true
}

/// The lines that a row takes up; at the end of a file the last may lack its line break.
fn lines_in(row: &[u8]) -> u64 {
    memchr_iter(b'\n', row).count() as u64 + u64::from(row.last() != Some(&b'\n'))
}

/// Where the search for the end of a row stands.
#[derive(Default)]
enum RowEnd {
    #[default]
    CellStart,
    Plain,
    Quoted,
    /// Behind a quote in a quoted cell: a second one is a quote in the text, anything else ends the quoted part.
    QuoteInQuoted,
}

impl RowEnd {
    /// Where the next row begins in `bytes`, which continue what was searched before.
    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (passed, next) = match self {
                RowEnd::Plain => {
                    let found = memchr2(b',', b'\n', rest)?;
                    if rest[found] == b'\n' {
                        return Some(at + found + 1);
                    }
                    (found + 1, RowEnd::CellStart)
                }
                RowEnd::Quoted => (memchr(b'"', rest)? + 1, RowEnd::QuoteInQuoted),
                RowEnd::CellStart | RowEnd::QuoteInQuoted => match rest[0] {
                    b'"' => (1, RowEnd::Quoted),
                    b',' => (1, RowEnd::CellStart),
                    _ => (0, RowEnd::Plain),
                },
            };
            at += passed;
            *self = next;
        }
        None
    }
}

/// The next cell of a row, without quotes. `at` is behind the row when there is none.
fn next_cell<'c>(row: &'c [u8], at: &mut usize, scratch: &'c mut Vec<u8>) -> Option<&'c [u8]> {
    let rest = row.get(*at..)?;
    if rest.first() != Some(&b'"') {
        let end = memchr(b',', rest).unwrap_or(rest.len());
        *at += end + 1;
        return Some(&rest[..end]);
    }
    scratch.clear();
    let mut from = 1;
    loop {
        let Some(quote) = memchr(b'"', &rest[from..]) else {
            scratch.extend_from_slice(&rest[from..]);
            *at += rest.len() + 1;
            return Some(scratch);
        };
        scratch.extend_from_slice(&rest[from..from + quote]);
        from += quote + 1;
        if rest.get(from) != Some(&b'"') {
            break;
        }
        scratch.push(b'"');
        from += 1;
    }
    let end = memchr(b',', &rest[from..]).map_or(rest.len(), |comma| from + comma);
    scratch.extend_from_slice(&rest[from..end]);
    *at += end + 1;
    Some(scratch)
}

fn write_cell(cell: &[u8], is_text: bool, text: &mut Vec<u8>) {
    match cell {
        b"" if !is_text => text.extend_from_slice(b"null"),
        b"true" | b"false" if !is_text => text.extend_from_slice(cell),
        _ if !is_text && is_json_number(cell) => text.extend_from_slice(cell),
        _ => {
            let cell =
                std::str::from_utf8(cell).expect("the row was checked and commas and quotes are whole characters");
            serde_json::to_writer(text, cell).expect("writing text to memory cannot fail");
        }
    }
}

/// Whether a cell is exactly a number as JSON writes them, so `007`, `+1` and ` 1` are not, and one that JSON readers
/// can hold, so `1e999` is not.
fn is_json_number(cell: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = cell.strip_prefix(b"-").unwrap_or(cell);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let count = digits(exponent);
        if count == 0 {
            return false;
        }
        rest = &exponent[count..];
    }
    let number = || std::str::from_utf8(cell).ok()?.parse::<f64>().ok();
    rest.is_empty() && (cell.len() < 300 && memchr2(b'e', b'E', cell).is_none() || number().is_some_and(f64::is_finite))
}

#[cfg(test)]
mod tests;
