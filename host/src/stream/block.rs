//! [`Block`]: the events of one commit in one partition, unpacked.

use super::EventNumber;
use crate::event::{Millis, Position};

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

impl Block {
    /// How many events it holds.
    pub fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Where the next block begins.
    pub fn end(&self) -> Position {
        Position { offset: self.start.offset + self.text.len() as u64, line: self.start.line + self.count() }
    }

    /// Where an event begins in the text; that of the one after the last is its length.
    pub fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    /// Which event of the block has this number.
    pub fn index_of(&self, number: EventNumber) -> usize {
        (number.0 - self.start.line) as usize
    }
}
