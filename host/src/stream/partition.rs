//! [`Partition`]: what readers know of a partition of a stream: its files, and how far they go.

use super::EventNumber;
use super::segment::Segment;
use crate::event::Position;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A partition of a stream.
pub(super) struct Partition {
    pub folder: PathBuf,
    view: Mutex<View>,
}

/// What can be read.
#[derive(Default)]
pub(super) struct View {
    /// Oldest first.
    pub segments: Vec<Arc<Segment>>,
    /// What comes after it cannot be read yet.
    pub end: Position,
}

impl Partition {
    pub fn new(folder: PathBuf, view: View) -> Self {
        Partition { folder, view: Mutex::new(view) }
    }

    pub fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View {
    /// Where the first event is that is still there.
    pub fn start(&self) -> Position {
        self.segments.first().map_or(self.end, |segment| segment.header.start)
    }

    /// The file that an event is in; none when there is no such event.
    pub fn segment_of(&self, number: EventNumber) -> Option<Arc<Segment>> {
        if number.0 >= self.end.line {
            return None;
        }
        let after = self.segments.partition_point(|segment| segment.first() <= number);
        after.checked_sub(1).map(|index| Arc::clone(&self.segments[index]))
    }

    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes()).sum()
    }
}
