//! Sources: where records come from. A source can be read again from any offset that it gave out.

mod csv;
mod empty;
pub mod file;
mod inputs;
mod lines;
mod listing;
mod reader;
pub mod stdin;
mod stored;

pub use empty::EmptySource;
pub use file::{FileOptions, FileSource};
pub use inputs::Inputs;
pub use stdin::StdinSpool;

use crate::event::{OffsetRange, Positions, RecordBatch};
use anyhow::Result;

/// How much one batch holds at most, counted with what it held before the read, whichever is reached first. One record is
/// read into an empty batch however small the limit is, so that reading always moves on.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimit {
    /// Records, rejected ones included.
    pub records_max: usize,
    /// Bytes of text.
    pub bytes_max: usize,
}

/// What a read left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadStatus {
    /// More can be read at once.
    More,
    /// Nothing more is there now. A source that is followed may have more later.
    Caught,
    /// Nothing will ever come.
    Ended,
}

/// What an input reads and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStatus {
    /// What is read, such as `files[data/*.jsonl]`.
    pub description: String,
    /// Bytes as they are stored: (read, total as known now). None when it cannot be known.
    pub bytes: Option<(u64, u64)>,
}

/// A replayable stream of records, made of source partitions (files).
pub trait Source: Send {
    /// Continues after these positions, one for each file that was read before. Files without one begin at 0.
    fn seek(&mut self, positions: &Positions) -> Result<()>;

    /// What is read from now on is for a rule that reads these members of an event, or all of them. A source that hands on with its
    /// records what others have found in them looks for that.
    fn want(&mut self, _members: Option<&[String]>) -> Result<()> {
        Ok(())
    }

    /// Reads on, up to the limit, and adds what it read to `batch`. [`ReadStatus::More`] may leave the batch without
    /// records, when what was read were blank lines. A failed read leaves the batch and the position as they were.
    fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus>;

    /// Reads exactly these ranges again, giving the same records, line numbers and rejections as the first time.
    /// Does not move what [`Source::read`] does next.
    fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()>;

    /// For progress reports: each input, in the order of their numbers.
    fn status(&self) -> Vec<SourceStatus>;
}
