//! Lines of text as records, read without copying them.

use super::reader::{FRAME_BYTES, LongLine, Stop, Taker, mark_bytes, strip};
use super::stored::{BLOCK_BYTES, StoredFile};
use anyhow::Result;
use memchr::{memchr, memchr_iter, memrchr};

/// Reads blocks of a file to the end of a batch's text and marks the lines in them. What was read too far for one batch
/// is kept for the next.
#[derive(Default)]
pub(super) struct Lines {
    ahead: Vec<u8>,
    ahead_at: usize,
}

/// How much of what was kept is used at once, so that small batches do not move all of it again and again.
const AHEAD_BYTES: usize = 32 * 1024;

impl Lines {
    pub(super) fn read(&mut self, stored: &mut StoredFile, until: u64, taker: &mut Taker) -> Result<Stop> {
        let mut line = taker.batch.text.len();
        loop {
            let searched = taker.batch.text.len();
            if searched - line > taker.rules.record_bytes_max + FRAME_BYTES {
                if taker.is_full(line) {
                    self.give_back(line, taker);
                    return Ok(Stop::Full);
                }
                self.skip_long_line(stored, until, line, taker)?;
                line = taker.batch.text.len();
            } else if self.next_block(stored, until, taker)? == 0 {
                return Ok(self.end(line, taker));
            } else if let Some(last) = memrchr(b'\n', &taker.batch.text[searched..]) {
                let (next, stop) = take_lines(line, searched + last + 1, taker);
                line = next;
                if let Some(stop) = stop {
                    self.give_back(line, taker);
                    return Ok(stop);
                }
            }
        }
    }

    /// What follows the last line break is a record of its own, or has to wait for its line break.
    fn end(&mut self, line: usize, taker: &mut Taker) -> Stop {
        let end = taker.batch.text.len();
        if line == end {
            return Stop::End;
        }
        if !taker.rules.unterminated {
            taker.batch.text.truncate(line);
            return Stop::End;
        }
        if taker.is_full(end) {
            self.give_back(line, taker);
            return Stop::Full;
        }
        let valid_utf8 = false;
        take_line(line, end, valid_utf8, taker);
        Stop::End
    }

    fn next_block(&mut self, stored: &mut StoredFile, until: u64, taker: &mut Taker) -> Result<usize> {
        let text = &mut taker.batch.text;
        if self.ahead_at == self.ahead.len() {
            self.ahead.clear();
            self.ahead_at = 0;
            return stored.read_block(text, until);
        }
        let end = self.ahead.len().min(self.ahead_at + AHEAD_BYTES);
        text.extend_from_slice(&self.ahead[self.ahead_at..end]);
        let count = end - self.ahead_at;
        self.ahead_at = end;
        Ok(count)
    }

    /// Takes the text from `start` off the batch; it comes again as the next block.
    fn give_back(&mut self, start: usize, taker: &mut Taker) {
        let text = &mut taker.batch.text;
        let count = text.len() - start;
        if count <= self.ahead_at {
            self.ahead_at -= count;
        } else {
            let rest = self.ahead.split_off(self.ahead_at);
            self.ahead.clear();
            self.ahead.extend_from_slice(&text[start..]);
            self.ahead.extend_from_slice(&rest);
            self.ahead_at = 0;
        }
        text.truncate(start);
    }

    /// Rejects a line that has no end within the limit, reading over it block by block. Without an end in the file it is
    /// rejected too or, where it may still grow, left to be read again.
    fn skip_long_line(&mut self, stored: &mut StoredFile, until: u64, line: usize, taker: &mut Taker) -> Result<()> {
        let mut long = LongLine::default();
        loop {
            let block = &taker.batch.text[line..];
            if let Some(end) = memchr(b'\n', block) {
                long.add(&block[..=end]);
                self.give_back(line + end + 1, taker);
                taker.batch.text.truncate(line);
                long.reject("", taker);
                return Ok(());
            }
            long.add(block);
            taker.batch.text.truncate(line);
            if self.next_block(stored, until, taker)? == 0 {
                if taker.rules.unterminated {
                    long.reject("", taker);
                }
                return Ok(());
            }
        }
    }
}

/// Takes the lines in `text[line..end]`, which ends with a line break. Returns where the next line begins.
fn take_lines(mut line: usize, end: usize, taker: &mut Taker) -> (usize, Option<Stop>) {
    let text = std::mem::take(&mut taker.batch.text);
    // One check over the whole block is much cheaper than one for each line; only a block that fails is looked at closely.
    let valid_utf8 = simdutf8::basic::from_utf8(&text[line..end]).is_ok();
    let mut stop = None;
    let base = line;
    for at in memchr_iter(b'\n', &text[base..end]) {
        let next = base + at + 1;
        if taker.is_full(next) {
            stop = Some(Stop::Full);
            break;
        }
        take_line_of(&text, line, next, valid_utf8, taker);
        line = next;
    }
    taker.batch.text = text;
    (line, stop)
}

fn take_line(line: usize, next: usize, valid_utf8: bool, taker: &mut Taker) {
    let text = std::mem::take(&mut taker.batch.text);
    take_line_of(&text, line, next, valid_utf8, taker);
    taker.batch.text = text;
}

#[inline]
fn take_line_of(text: &[u8], line: usize, next: usize, valid_utf8: bool, taker: &mut Taker) {
    let whole = &text[line..next];
    let record = strip(whole, taker.position.offset);
    if record.len() > taker.rules.record_bytes_max {
        taker.reject_too_long(record.len(), "", record);
    } else if !is_blank(record) {
        match if valid_utf8 { Ok("") } else { std::str::from_utf8(record) } {
            Ok(_) => {
                let start = line + mark_bytes(whole, taker.position.offset);
                taker.accept(start, start + record.len());
            }
            Err(error) => taker.reject_invalid_utf8(error.valid_up_to(), record),
        }
    }
    taker.move_on(whole.len(), 1);
}

/// Blank lines separate nothing and mean nothing.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.first().is_none_or(|first| *first <= b' ') && line.iter().all(u8::is_ascii_whitespace)
}

const _: () = assert!(AHEAD_BYTES <= BLOCK_BYTES);
