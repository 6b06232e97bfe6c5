//! [`SegmentHeader`]: how a segment file begins. It tells all that is needed of the segments before it, so that opening a stream
//! reads one file.

use super::bytes::Bytes;
use super::notes::{ProducerNote, put_producers, read_producers};
use crate::event::{Millis, Position};
use anyhow::{Context, Result, ensure};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"\xffKFSEG1\n";
/// Magic and the length of what follows.
pub(super) const PREFIX_BYTES: usize = 12;
/// Far more than the producers of a stream take.
const HEADER_BYTES_MAX: u32 = 64 << 20;

/// How a segment file begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SegmentHeader {
    /// Another one for each segment: see the checksums of blocks.
    pub salt: u64,
    /// Where the segment begins in the partition.
    pub start: Position,
    /// When the last event before it was taken, or the first one of all: none before it is younger, and none in it is older.
    pub created: Millis,
    /// How many ids were noted in the partition before.
    pub ids_before: u64,
    /// How many requests with an `Idempotency-Key`.
    pub requests_before: u64,
    /// The last batch of each producer. Segments that noted them may be gone.
    pub producers: Vec<ProducerNote>,
}

impl SegmentHeader {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        for number in [self.salt, self.start.line, self.start.offset, self.created.0 as u64] {
            rest.extend_from_slice(&number.to_le_bytes());
        }
        rest.extend_from_slice(&self.ids_before.to_le_bytes());
        rest.extend_from_slice(&self.requests_before.to_le_bytes());
        put_producers(&mut rest, &self.producers);
        rest.extend_from_slice(&xxh3_64(&rest).to_le_bytes());
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(rest.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&rest);
        bytes
    }

    /// How long the header is that begins so.
    pub fn bytes_of(prefix: &[u8; PREFIX_BYTES]) -> Result<usize> {
        ensure!(prefix.starts_with(&MAGIC), "it does not begin as a segment does");
        let rest = Bytes(&prefix[MAGIC.len()..]).u32().filter(|rest| *rest <= HEADER_BYTES_MAX);
        Ok(PREFIX_BYTES + rest.context("its header is too long")? as usize)
    }

    /// Reads a whole header.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let rest = bytes.get(PREFIX_BYTES..).unwrap_or_default();
        let (rest, checksum) = rest.split_at(rest.len().saturating_sub(8));
        ensure!(xxh3_64(rest).to_le_bytes() == checksum, "the checksum of its header is wrong");
        let read = |bytes: &mut Bytes<'_>| {
            let salt = bytes.u64()?;
            let start = Position { line: bytes.u64()?, offset: bytes.u64()? };
            Some(SegmentHeader {
                salt,
                start,
                created: Millis(bytes.u64()? as i64),
                ids_before: bytes.u64()?,
                requests_before: bytes.u64()?,
                producers: read_producers(bytes)?,
            })
        };
        read(&mut Bytes(rest)).context("its header cannot be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_went_in_and_every_flipped_bit_is_found() {
        let header = SegmentHeader {
            salt: 1,
            start: Position { offset: 2, line: 3 },
            created: Millis(4),
            ids_before: 5,
            requests_before: 6,
            producers: vec![ProducerNote { producer: "rule".to_owned(), batch: 7 }],
        };
        let bytes = header.to_bytes();
        let read = |bytes: &[u8]| {
            let length = SegmentHeader::bytes_of(bytes.first_chunk().context("too short")?)?;
            SegmentHeader::read(bytes.get(..length).context("too short")?)
        };
        assert_eq!(read(&bytes).unwrap(), header);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(read(&damaged).is_err(), "byte {at}");
            assert!(read(&bytes[..at]).is_err(), "{at} bytes");
        }
    }
}
