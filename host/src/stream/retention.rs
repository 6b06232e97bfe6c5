//! Retention: whole segments that are past their age or size and needed by nobody are deleted, oldest first.

use super::partition::Partition;
use super::segment::Segment;
use super::writer::WrittenPart;
use super::{Retention, StreamLog};
use crate::event::{Millis, Position};
use crate::fault;
use crate::synced;
use anyhow::{Context, Result, anyhow};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// An event stays at most this part of its age longer, because it shares a segment with younger ones.
const AGE_PARTS: u32 = 8;

/// What [`StreamLog::retain`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retained {
    /// Files that were deleted.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Events in them.
    pub events: u64,
    /// What would have been deleted, had nobody needed it.
    pub held: Vec<Held>,
}

/// Events that are past their retention and stay because somebody needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Who needs them.
    pub by: String,
    /// In which partition.
    pub partition: u32,
    /// Bytes of the files that stay for it.
    pub bytes: u64,
}

impl StreamLog {
    /// Deletes what is past its retention and needed by nobody. `needed`: who reads the stream, and where in each partition its
    /// reading goes on; what lies there and after it stays. Of a partition for which somebody names no position all of it stays.
    pub fn retain(&self, needed: &[(String, Vec<Position>)]) -> Result<Retained> {
        let retention = self.settings().retention;
        let mut retained = Retained::default();
        if retention == Retention::default() {
            return Ok(retained);
        }
        let Ok(mut writer) = self.writer.lock() else { return Err(anyhow!("the stream must be opened again")) };
        let now = self.clock.now().max(writer.last_received);
        if let Some(age) = retention.age {
            for (partition, part) in self.partitions.iter().zip(&mut writer.parts) {
                roll_aged(partition, part, age, now)?;
            }
        }
        drop(writer);
        let mut too_large = retention.bytes.map_or(0, |bytes| self.bytes().saturating_sub(bytes));
        // The oldest of all partitions goes first: only for the size it matters which.
        let mut past: Vec<Past> = Vec::new();
        for (number, partition) in (0..).zip(&self.partitions) {
            let view = partition.view();
            past.extend(view.segments.windows(2).map(|pair| Past::new(number, &pair[0], &pair[1])));
        }
        past.sort_by_key(|past| (past.until, past.partition, past.end));
        let mut is_held = vec![false; self.partitions.len()];
        for past in past {
            let is_aged = retention.age.is_some_and(|age| past.until.0 <= now.0.saturating_sub(millis(age)));
            if !is_aged && too_large == 0 {
                continue;
            }
            let bytes = past.segment.bytes();
            too_large = too_large.saturating_sub(bytes);
            let index = past.partition as usize;
            let holders = needed.iter().filter(|(_, at)| at.get(index).is_none_or(|at| at.line < past.end.line));
            let holders: Vec<&String> = holders.map(|(by, _)| by).collect();
            // What comes after a segment that stays does, too: events are read in order.
            if !is_held[index] && holders.is_empty() {
                self.partitions[index].delete_first(&past.segment)?;
                retained.segments += 1;
                retained.bytes += bytes;
                retained.events += past.end.line - past.segment.header.start.line;
                continue;
            }
            is_held[index] = true;
            holders.into_iter().for_each(|by| retained.hold(by, past.partition, bytes));
        }
        for partition in self.partitions.iter().filter(|_| retained.segments > 0) {
            if partition.folder.exists() {
                synced::folder(&partition.folder).context("failed to sync a partition's folder")?;
            }
        }
        Ok(retained)
    }
}

/// A segment that another one follows.
struct Past {
    partition: u32,
    segment: Arc<Segment>,
    /// Where it ends.
    end: Position,
    /// No event in it is younger.
    until: Millis,
}

impl Past {
    fn new(partition: u32, segment: &Arc<Segment>, next: &Segment) -> Self {
        Past { partition, segment: Arc::clone(segment), end: next.header.start, until: next.header.created }
    }
}

impl Retained {
    fn hold(&mut self, by: &str, partition: u32, bytes: u64) {
        match self.held.iter_mut().find(|held| held.by == by && held.partition == partition) {
            Some(held) => held.bytes += bytes,
            None => self.held.push(Held { by: by.to_owned(), partition, bytes }),
        }
    }
}

impl Partition {
    /// Deletes the oldest segment. Readers no longer find it before it is gone.
    fn delete_first(&self, segment: &Arc<Segment>) -> Result<()> {
        let mut view = self.view();
        let first = view.segments.first().is_some_and(|first| Arc::ptr_eq(first, segment));
        assert!(first, "{} is not the oldest segment", segment.path.display());
        fs::remove_file(&segment.path).with_context(|| format!("failed to delete {}", segment.path.display()))?;
        fault::point("segment-deleted");
        view.segments.remove(0);
        Ok(())
    }
}

/// Begins another segment when the events of the last one would stay much longer than they should.
fn roll_aged(partition: &Partition, part: &mut WrittenPart, age: Duration, now: Millis) -> Result<()> {
    let Some(active) = part.active.clone().filter(|active| active.has_events()) else { return Ok(()) };
    if now.0.saturating_sub(active.header.created.0) > millis(age / AGE_PARTS) {
        part.roll(partition, now).with_context(|| format!("failed to follow {}", active.path.display()))?;
    }
    Ok(())
}

fn millis(time: Duration) -> i64 {
    time.as_millis().try_into().unwrap_or(i64::MAX)
}
