//! [`ReadPositions`]: how far all plans up to a batch have read every file. A plan says only what its own batch reads, so plans can
//! be deleted only once this is written; without it a restored rule would read the files of deleted plans again.

use crate::event::{BatchId, InputId, OffsetRange, Position, Positions};
use serde::{Deserialize, Serialize};

/// `positions/<batch>`, a text object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPositions {
    /// The last batch whose plan is counted.
    pub batch: BatchId,
    /// Every file that was ever read.
    pub files: Vec<ReadFile>,
}

/// How far a file was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFile {
    /// The input.
    pub input: InputId,
    /// The file, as plans name it.
    pub file: String,
    /// The place up to which it was read.
    pub to: Position,
}

impl ReadPositions {
    /// The positions after a batch.
    pub fn new(batch: BatchId, positions: &Positions) -> Self {
        let file = |((input, file), to): (&(InputId, String), &Position)| ReadFile {
            input: *input,
            file: file.clone(),
            to: *to,
        };
        ReadPositions { batch, files: positions.iter().map(file).collect() }
    }

    /// As the plan log has them.
    pub fn to_positions(&self) -> Positions {
        self.files.iter().map(|read| ((read.input, read.file.clone()), read.to)).collect()
    }
}

/// Moves positions on by what a plan reads.
pub fn advance(positions: &mut Positions, ranges: &[OffsetRange]) {
    for range in ranges {
        positions.insert((range.input, range.file.clone()), range.to);
    }
}
