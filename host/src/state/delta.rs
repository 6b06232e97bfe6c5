//! A delta: the changed rows of one batch in one partition, as one checksummed blob.
//!
//! Row: key length, key, flags, schema, state length, state, timeout. Lengths and schema are LEB128; the flags' bit 0 says
//! that there is state, bits 1 and 2 hold the clock of the timeout, whose time follows as 8 bytes, little-endian. A row
//! without state and timeout says that the key is gone.

use crate::event::Millis;
use crate::group::{Timeout, TimeoutClock};
use crate::state::damage::REMEDY;
use crate::state::reader::KeyRow;
use anyhow::{Context, Result, ensure};
use xxhash_rust::xxh3::xxh3_64;

const CHECKSUM_BYTES: usize = 8;
const HAS_STATE: u8 = 1;
const CLOCK_SHIFT: u8 = 1;

/// Collects the rows of one batch.
#[derive(Debug, Default, PartialEq)]
pub struct DeltaBuilder {
    bytes: Vec<u8>,
    rows: u64,
}

/// One row of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaRow<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The state and the number of its schema.
    pub state: Option<(&'a [u8], u32)>,
    /// The timeout.
    pub timeout: Option<Timeout>,
}

impl DeltaRow<'_> {
    /// A copy of the row that outlives the delta.
    pub fn to_key_row(&self) -> KeyRow {
        let state = self.state.map(|(state, schema)| (state.to_vec(), schema));
        KeyRow { key: self.key.to_vec(), state, timeout: self.timeout }
    }
}

impl DeltaBuilder {
    /// Adds a row. A key is added at most once in a batch.
    pub fn push(&mut self, row: DeltaRow<'_>) {
        self.rows += 1;
        write_number(&mut self.bytes, row.key.len() as u64);
        self.bytes.extend_from_slice(row.key);
        let clock = row.timeout.map_or(0, |timeout| timeout.clock as u8);
        self.bytes.push(u8::from(row.state.is_some()) | clock << CLOCK_SHIFT);
        if let Some((state, schema)) = row.state {
            write_number(&mut self.bytes, u64::from(schema));
            write_number(&mut self.bytes, state.len() as u64);
            self.bytes.extend_from_slice(state);
        }
        if let Some(timeout) = row.timeout {
            self.bytes.extend_from_slice(&timeout.at.0.to_le_bytes());
        }
    }

    /// Calls `each` with the rows so far.
    pub fn each(&self, mut each: impl FnMut(DeltaRow<'_>)) {
        let mut rest = self.bytes.as_slice();
        while let Some(row) = read_row(&mut rest) {
            each(row);
        }
    }

    /// How many bytes so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The blob, with its checksum.
    pub fn finish(mut self) -> Vec<u8> {
        let checksum = xxh3_64(&self.bytes);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        self.bytes
    }
}

/// Calls `each` with the rows of a blob, after its checksum was found right.
pub fn read<'b>(blob: &'b [u8], mut each: impl FnMut(DeltaRow<'b>) -> Result<()>) -> Result<()> {
    ensure!(
        blob.len() >= CHECKSUM_BYTES,
        "it has {} bytes, too few for a checksum: the file is damaged; {REMEDY}",
        blob.len()
    );
    let (mut rest, checksum) = blob.split_at(blob.len() - CHECKSUM_BYTES);
    let found = xxh3_64(rest).to_le_bytes();
    ensure!(found == checksum, "its checksum is wrong: the file is damaged; {REMEDY}");
    while !rest.is_empty() {
        each(
            read_row(&mut rest)
                .with_context(|| format!("it ends in the middle of a row: the file is damaged; {REMEDY}"))?,
        )?;
    }
    Ok(())
}

fn read_row<'a>(rest: &mut &'a [u8]) -> Option<DeltaRow<'a>> {
    let key_length = read_number(rest)? as usize;
    let key = take(rest, key_length)?;
    let flags = *take(rest, 1)?.first()?;
    let state = if flags & HAS_STATE == 0 {
        None
    } else {
        let schema = read_number(rest)? as u32;
        let length = read_number(rest)? as usize;
        Some((take(rest, length)?, schema))
    };
    let timeout = match TimeoutClock::from_number(flags >> CLOCK_SHIFT) {
        None => None,
        Some(clock) => {
            let at = i64::from_le_bytes(take(rest, 8)?.try_into().ok()?);
            Some(Timeout { clock, at: Millis(at) })
        }
    };
    Some(DeltaRow { key, state, timeout })
}

fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<DeltaRow<'static>> {
        let timeout = Timeout { clock: TimeoutClock::EventTime, at: Millis(-5) };
        vec![
            DeltaRow { key: b"u1", state: Some((b"abc", 300)), timeout: Some(timeout) },
            DeltaRow { key: b"", state: None, timeout: None },
            DeltaRow { key: &[7; 200], state: Some((b"", 1)), timeout: None },
        ]
    }

    fn blob() -> Vec<u8> {
        let mut builder = DeltaBuilder::default();
        sample().into_iter().for_each(|row| builder.push(row));
        builder.finish()
    }

    #[test]
    fn rows_come_back_as_they_went_in() {
        let blob = blob();
        let mut expected = sample().into_iter();
        read(&blob, |row| {
            assert_eq!(Some(row), expected.next());
            Ok(())
        })
        .expect("the blob is whole");
        assert!(expected.next().is_none());
    }

    #[test]
    fn every_flipped_byte_is_found() {
        let blob = blob();
        for at in 0..blob.len() {
            let mut damaged = blob.clone();
            damaged[at] ^= 0x10;
            assert!(read(&damaged, |_| Ok(())).is_err(), "byte {at}");
        }
    }
}
