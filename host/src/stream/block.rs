//! [`Block`]: events of one commit in one partition, and how they lie in a file: header, notes, events as JSON lines.
//!
//! ```text
//! magic      4  not UTF-8, so that no event looks like it
//! codec      1  0: the lines as they are; 1: zstd
//! start     16  number and offset of the first event
//! commit     8  where in the file the commit began
//! following  4  how many blocks of the commit come after this one
//! received   8
//! count      4  events
//! raw        4  bytes of the lines
//! stored     4  bytes of the lines as they are stored
//! notes      4  bytes of the notes
//! checksums 24  of the notes, of the stored lines, of the header: xxh3, seeded by the segment and the place in it, so that a
//!               block that was left by an earlier use of the disk is none
//! ```

use super::EventNumber;
use super::bytes::Bytes;
use super::notes::Notes;
use crate::event::{Millis, Position};
use crate::source::file::RECORD_BYTES_MAX;
use anyhow::{Result, ensure};
use memchr::memchr_iter;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zstd::bulk::{Compressor, decompress};

pub(super) const MAGIC: [u8; 4] = [0xff, b'K', b'F', 0xfe];
pub(super) const HEADER_BYTES: usize = 4 + 1 + 16 + 8 + 4 + 8 + 4 * 4 + 24;
/// No block has more bytes of lines: it takes no further event when it has this many, and events have their own limit.
pub(super) const LINES_BYTES_MAX: usize = 2 * RECORD_BYTES_MAX;
/// Shorter lines are stored as they are: compressing them wins nothing.
const COMPRESSED_BYTES_MIN: usize = 256;
/// The fastest level: it stores events in a fifth of their bytes, faster than most disks take them.
pub(super) const ZSTD_LEVEL: i32 = 1;

/// The events of a block, unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Block {
    /// Where it begins in the partition.
    pub start: Position,
    /// When it was written.
    pub received: Millis,
    /// The events, each with a line feed.
    pub text: Vec<u8>,
    /// Where each event ends in the text, line feed included.
    pub ends: Vec<u32>,
}

/// What stands before a block in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub start: Position,
    /// Where in the file the commit began that the block belongs to.
    pub commit_at: u64,
    /// How many blocks of the same commit come after this one.
    pub following: u32,
    pub received: Millis,
    pub count: u32,
    raw_bytes: u32,
    stored_bytes: u32,
    notes_bytes: u32,
    is_compressed: bool,
    notes_checksum: u64,
    lines_checksum: u64,
}

/// The place of a block's commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Commit {
    pub at: u64,
    pub following: u32,
}

impl Block {
    /// How many events it holds.
    pub fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Where the next block begins.
    pub fn end(&self) -> Position {
        Position { offset: self.start.offset + self.text.len() as u64, line: self.start.line + self.count() }
    }

    /// Adds an event.
    pub fn push(&mut self, json: &[u8]) {
        self.text.extend_from_slice(json);
        self.text.push(b'\n');
        self.ends.push(self.text.len() as u32);
    }

    /// Whether this event is in it.
    pub fn has(&self, number: EventNumber) -> bool {
        (self.start.line..self.end().line).contains(&number.0)
    }

    /// Where an event begins in the text; that of the one after the last is its length.
    pub fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    /// Which event of the block has this number.
    pub fn index_of(&self, number: EventNumber) -> usize {
        (number.0 - self.start.line) as usize
    }

    /// Where this event begins in the partition.
    pub fn position_of(&self, number: EventNumber) -> Position {
        let offset = self.start.offset + self.start_of(self.index_of(number)) as u64;
        Position { offset, line: number.0 }
    }

    /// Adds the block to bytes that will be written to a segment from `into_at` on.
    pub fn write(
        &self,
        notes: &Notes,
        commit: Commit,
        salt: u64,
        into_at: u64,
        compressor: &mut Compressor<'_>,
        into: &mut Vec<u8>,
    ) {
        let header_at = into.len();
        let seed = seed(salt, into_at + header_at as u64);
        into.resize(header_at + HEADER_BYTES, 0);
        notes.write(into);
        let lines_at = into.len();
        // What cannot be compressed is no error: it is stored as it is.
        let compressed = match self.text.len() {
            ..COMPRESSED_BYTES_MIN => None,
            bytes => compressor.compress(&self.text).ok().filter(|compressed| compressed.len() < bytes),
        };
        into.extend_from_slice(compressed.as_deref().unwrap_or(&self.text));
        let (notes_bytes, lines) = (&into[header_at + HEADER_BYTES..lines_at], &into[lines_at..]);
        let header = Header {
            start: self.start,
            commit_at: commit.at,
            following: commit.following,
            received: self.received,
            count: self.ends.len() as u32,
            raw_bytes: self.text.len() as u32,
            stored_bytes: lines.len() as u32,
            notes_bytes: notes_bytes.len() as u32,
            is_compressed: compressed.is_some(),
            notes_checksum: xxh3_64_with_seed(notes_bytes, seed),
            lines_checksum: xxh3_64_with_seed(lines, seed),
        };
        into[header_at..header_at + HEADER_BYTES].copy_from_slice(&header.to_bytes(seed));
    }
}

impl Header {
    fn to_bytes(self, seed: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(self.is_compressed.into());
        for number in [self.start.line, self.start.offset, self.commit_at] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.following.to_le_bytes());
        bytes.extend_from_slice(&self.received.0.to_le_bytes());
        for number in [self.count, self.raw_bytes, self.stored_bytes, self.notes_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.notes_checksum.to_le_bytes());
        bytes.extend_from_slice(&self.lines_checksum.to_le_bytes());
        let checksum = xxh3_64_with_seed(&bytes, seed);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        assert_eq!(bytes.len(), HEADER_BYTES, "the header has another length");
        bytes
    }

    /// Reads the header at a place in a segment. Nothing when there is none.
    pub fn read(bytes: &[u8], salt: u64, at: u64) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES).filter(|bytes| bytes.starts_with(&MAGIC))?;
        let checksum = xxh3_64_with_seed(&bytes[..HEADER_BYTES - 8], seed(salt, at));
        let mut bytes = Bytes(&bytes[MAGIC.len()..]);
        let [is_compressed] = bytes.array()?;
        let start = Position { line: bytes.u64()?, offset: bytes.u64()? };
        let header = Header {
            start,
            commit_at: bytes.u64()?,
            following: bytes.u32()?,
            received: Millis(bytes.u64()? as i64),
            count: bytes.u32()?,
            raw_bytes: bytes.u32()?,
            stored_bytes: bytes.u32()?,
            notes_bytes: bytes.u32()?,
            is_compressed: is_compressed == 1,
            notes_checksum: bytes.u64()?,
            lines_checksum: bytes.u64()?,
        };
        let is_possible = header.raw_bytes as usize <= LINES_BYTES_MAX && header.commit_at <= at && header.count > 0;
        (bytes.u64()? == checksum && is_possible).then_some(header)
    }

    /// Bytes of the whole block in the file.
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.notes_bytes) + u64::from(self.stored_bytes)
    }

    /// Bytes up to the end of the notes.
    pub fn bytes_with_notes(&self) -> usize {
        HEADER_BYTES + self.notes_bytes as usize
    }

    /// Where the next block begins in the partition.
    pub fn end(&self) -> Position {
        Position {
            offset: self.start.offset.saturating_add(self.raw_bytes.into()),
            line: self.start.line.saturating_add(self.count.into()),
        }
    }

    /// The notes of the block, whose bytes are given up to their end.
    pub fn notes(&self, block: &[u8], salt: u64, at: u64) -> Result<Notes> {
        let notes = &block[HEADER_BYTES..self.bytes_with_notes()];
        ensure!(xxh3_64_with_seed(notes, seed(salt, at)) == self.notes_checksum, "the checksum of the notes is wrong");
        let read = Notes::read(notes).filter(|notes| {
            notes.requests.iter().all(|request| request.first.saturating_add(request.accepted) <= self.count)
        });
        read.ok_or_else(|| anyhow::anyhow!("the notes cannot be read"))
    }

    /// Checks the lines of the block, whose bytes are given.
    pub fn check(&self, block: &[u8], salt: u64, at: u64) -> Result<()> {
        let lines = &block[self.bytes_with_notes()..];
        ensure!(xxh3_64_with_seed(lines, seed(salt, at)) == self.lines_checksum, "the checksum of the events is wrong");
        Ok(())
    }

    /// Unpacks the block, whose bytes are given.
    pub fn unpack(&self, block: &[u8], salt: u64, at: u64) -> Result<Block> {
        self.check(block, salt, at)?;
        let stored = &block[self.bytes_with_notes()..];
        let text = match self.is_compressed {
            true => decompress(stored, self.raw_bytes as usize)?,
            false => stored.to_vec(),
        };
        ensure!(
            text.len() == self.raw_bytes as usize && text.last() == Some(&b'\n'),
            "it has {} bytes of events, not {}",
            text.len(),
            self.raw_bytes
        );
        let ends: Vec<u32> = memchr_iter(b'\n', &text).map(|at| at as u32 + 1).collect();
        ensure!(ends.len() == self.count as usize, "it has {} events, not {}", ends.len(), self.count);
        Ok(Block { start: self.start, received: self.received, text, ends })
    }
}

fn seed(salt: u64, at: u64) -> u64 {
    salt.wrapping_add(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u64 = 77;
    const AT: u64 = 1000;

    fn block(events: usize) -> Block {
        let mut block = Block { start: Position { offset: 500, line: 20 }, received: Millis(-3), ..Block::default() };
        (0..events).for_each(|number| block.push(format!(r#"{{"number":{number}}}"#).as_bytes()));
        block
    }

    fn written(block: &Block, notes: &Notes) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut compressor = Compressor::new(ZSTD_LEVEL).unwrap();
        block.write(notes, Commit { at: 900, following: 2 }, SALT, AT, &mut compressor, &mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Block, Notes)> {
        let header = Header::read(bytes, SALT, AT).ok_or_else(|| anyhow::anyhow!("there is no header"))?;
        ensure!(header.bytes() == bytes.len() as u64, "another length");
        Ok((header.unpack(bytes, SALT, AT)?, header.notes(bytes, SALT, AT)?))
    }

    #[test]
    fn a_block_comes_back_as_it_went_in_whether_it_is_worth_compressing_or_not() {
        for events in [1, 3, 1000] {
            let (block, notes) = (block(events), Notes { ids: vec![[9; 16]], ..Notes::default() });
            let bytes = written(&block, &notes);
            assert_eq!(read(&bytes).unwrap(), (block.clone(), notes));
            let header = Header::read(&bytes, SALT, AT).unwrap();
            assert_eq!((header.commit_at, header.following, header.end()), (900, 2, block.end()));
            assert_eq!(header.is_compressed, events == 1000);
        }
    }

    #[test]
    fn every_flipped_bit_of_a_block_is_found_and_so_is_another_place() {
        let bytes = written(&block(40), &Notes { ids: vec![[9; 16]], ..Notes::default() });
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(read(&damaged).is_err(), "byte {at}");
        }
        assert_eq!(Header::read(&bytes, SALT, AT + 1), None);
        assert_eq!(Header::read(&bytes, SALT + 1, AT), None);
    }
}
