//! A snapshot: all rows of a partition and its dead letters as of one batch, written and read as a stream.
//!
//! A compressed sequence of blocks, each with its length before it: blocks of rows in the form of a delta, an empty block, lines of
//! dead letters, an empty block, and a foot of JSON that says how many there were. Behind it the checksum of all of it.

use super::object::check;
use crate::state::KeptLetter;
use crate::state::delta::{self, DeltaBuilder, DeltaRow};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use xxhash_rust::xxh3::Xxh3;

const MARK: &[u8; 8] = b"keyfols\x01";
const ZSTD_LEVEL: i32 = 3;
/// Rows are written in blocks of this size, so that neither side holds much.
const BLOCK_BYTES: usize = 256 * 1024;
/// One row can be as large as a state may be; a block that claims more is damaged.
const BLOCK_BYTES_MAX: usize = 1 << 30;

/// How many a snapshot has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows.
    pub rows: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// Writes a snapshot.
pub struct SnapshotWriter<W: Write> {
    output: zstd::Encoder<'static, Hashing<W>>,
    block: DeltaBuilder,
    counts: Counts,
    has_all_rows: bool,
}

/// Hashes what goes through.
struct Hashing<W> {
    inner: W,
    hash: Xxh3,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> SnapshotWriter<W> {
    /// Begins a snapshot.
    pub fn new(inner: W) -> Result<Self> {
        let mut output = Hashing { inner, hash: Xxh3::new() };
        output.write_all(MARK)?;
        Ok(SnapshotWriter {
            output: zstd::Encoder::new(output, ZSTD_LEVEL)?,
            block: DeltaBuilder::default(),
            counts: Counts::default(),
            has_all_rows: false,
        })
    }

    /// Adds a row. All rows come before all dead letters.
    pub fn row(&mut self, row: DeltaRow<'_>) -> Result<()> {
        assert!(!self.has_all_rows, "rows come before dead letters");
        self.counts.rows += 1;
        self.block.push(row);
        if self.block.bytes() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Adds a dead letter.
    pub fn dead_letter(&mut self, kept: &KeptLetter) -> Result<()> {
        self.end_rows()?;
        self.counts.dead_letters += 1;
        self.write(&serde_json::to_vec(kept)?)
    }

    /// Ends the snapshot.
    pub fn finish(mut self) -> Result<(W, Counts)> {
        self.end_rows()?;
        self.write(&[])?;
        self.write(&serde_json::to_vec(&self.counts)?)?;
        let Hashing { mut inner, hash } = self.output.finish()?;
        inner.write_all(&hash.digest().to_le_bytes())?;
        inner.flush()?;
        Ok((inner, self.counts))
    }

    fn end_rows(&mut self) -> Result<()> {
        if !self.has_all_rows {
            self.end_block()?;
            self.write(&[])?;
            self.has_all_rows = true;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block.rows() == 0 {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block).finish();
        self.write(&block)
    }

    fn write(&mut self, block: &[u8]) -> Result<()> {
        self.output.write_all(&(block.len() as u32).to_le_bytes())?;
        Ok(self.output.write_all(block)?)
    }
}

/// Reads a snapshot whose checksum was found right (see [`check_stream`]), and hands out its rows and dead letters.
pub fn read(
    mut input: impl Read,
    mut row: impl FnMut(DeltaRow<'_>) -> Result<()>,
    mut dead_letter: impl FnMut(KeptLetter) -> Result<()>,
) -> Result<Counts> {
    let mut mark = [0; MARK.len()];
    input.read_exact(&mut mark).context("it is too short")?;
    ensure!(mark == *MARK, "it is not a snapshot of this version");
    // The checksum behind the frame is not part of it.
    let mut input = zstd::Decoder::new(input)?.single_frame();
    let mut counts = Counts::default();
    let mut block = Vec::new();
    while read_block(&mut input, &mut block)? {
        delta::read(&block, |found| {
            counts.rows += 1;
            row(found)
        })?;
    }
    while read_block(&mut input, &mut block)? {
        let kept = serde_json::from_slice(&block).context("failed to read a dead letter")?;
        counts.dead_letters += 1;
        dead_letter(kept)?;
    }
    read_block(&mut input, &mut block)?;
    let expected: Counts = serde_json::from_slice(&block).context("it has no foot")?;
    ensure!(counts == expected, "it has {counts:?}, and says that it has {expected:?}");
    Ok(counts)
}

/// Whether the checksum of a snapshot of so many bytes is right.
pub fn check_stream(mut input: impl Read, bytes: u64) -> Result<()> {
    const CHECKSUM_BYTES: u64 = 8;
    let content = bytes.checked_sub(CHECKSUM_BYTES).context("it is too short for a checksum")?;
    let mut hash = Xxh3::new();
    let mut left = content;
    let mut buffer = vec![0; 64 * 1024];
    while left > 0 {
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        input.read_exact(&mut buffer[..wanted]).context("it ends too early: the object is damaged")?;
        hash.update(&buffer[..wanted]);
        left -= wanted as u64;
    }
    let mut checksum = [0; CHECKSUM_BYTES as usize];
    input.read_exact(&mut checksum).context("it ends too early: the object is damaged")?;
    ensure!(u64::from_le_bytes(checksum) == hash.digest(), "its checksum is wrong: the object is damaged");
    Ok(())
}

/// Whether the bytes of a whole snapshot are right.
pub fn check_bytes(bytes: &[u8]) -> Result<()> {
    check(bytes)
}

/// Reads a block; false for an empty one.
fn read_block(input: &mut impl Read, block: &mut Vec<u8>) -> Result<bool> {
    let mut length = [0; 4];
    input.read_exact(&mut length).context("it ends too early")?;
    let length = u32::from_le_bytes(length) as usize;
    ensure!(length <= BLOCK_BYTES_MAX, "a block of it claims to have {length} bytes");
    block.resize(length, 0);
    input.read_exact(block).context("it ends too early")?;
    Ok(length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BatchId, Millis};
    use crate::group::{Timeout, TimeoutClock};
    use crate::state::DeadLetter;

    fn rows() -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..5000_u32).map(|number| (format!("key-{number:05}").into_bytes(), vec![number as u8; 200])).collect()
    }

    fn letter() -> KeptLetter {
        let letter = DeadLetter {
            reason: "trap".to_owned(),
            message: "it failed".to_owned(),
            key: None,
            digest: None,
            fuel: None,
            timed_out: true,
            events: Vec::new(),
        };
        KeptLetter { batch: BatchId(4), number: 7, re_driven: Some(BatchId(9)), letter }
    }

    fn snapshot() -> Vec<u8> {
        let mut writer = SnapshotWriter::new(Vec::new()).expect("memory can be written");
        for (key, state) in &rows() {
            let timeout = Some(Timeout { clock: TimeoutClock::EventTime, at: Millis(5) });
            writer.row(DeltaRow { key, state: Some((state, 1)), timeout }).expect("memory can be written");
        }
        writer.dead_letter(&letter()).expect("memory can be written");
        writer.finish().expect("memory can be written").0
    }

    #[test]
    fn a_snapshot_comes_back_as_it_went_in() {
        let bytes = snapshot();
        check_stream(bytes.as_slice(), bytes.len() as u64).expect("it is whole");
        let (mut found, mut letters) = (Vec::new(), Vec::new());
        let counts = read(
            bytes.as_slice(),
            |row| {
                found.push((row.key.to_vec(), row.state.expect("it has a state").0.to_vec()));
                Ok(())
            },
            |kept| {
                letters.push(kept);
                Ok(())
            },
        );
        assert_eq!(counts.expect("it is whole"), Counts { rows: 5000, dead_letters: 1 });
        assert_eq!((found, letters), (rows(), vec![letter()]));
    }

    #[test]
    fn flipped_and_missing_bytes_of_a_snapshot_are_found() {
        let bytes = snapshot();
        for at in (0..bytes.len()).step_by(97) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(check_stream(damaged.as_slice(), damaged.len() as u64).is_err(), "byte {at}");
            assert!(check_stream(&bytes[..at], at as u64).is_err(), "cut at {at}");
        }
    }
}
