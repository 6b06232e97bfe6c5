//! [`StreamSource`]: a stream as the input of a rule.

use super::block::Block;
use super::keying::Keying;
use super::{EventNumber, StreamLog};
use crate::event::{InputId, OffsetRange, Position, Positions, Record, RecordBatch};
use crate::extract::{KeyedRun, TimeFormat};
use crate::source::file::TEXT_BYTES_MAX;
use crate::source::{ReadLimit, ReadStatus, Source, SourceStatus};
use anyhow::{Context, Result, bail, ensure};
use std::ops::Range;
use std::sync::Arc;

/// Of blocks with fewer events each reader looks for its key and time itself: that costs no more than to ask what others have found.
const SHARED_EVENTS_MIN: usize = 8;

/// Reads a stream for a rule. Its source partitions are those of the stream, named by their numbers.
pub struct StreamSource {
    input: InputId,
    log: Arc<StreamLog>,
    name: String,
    start: Vec<Position>,
    /// Where reading ends for good; the stream may have more.
    until: Option<Vec<Position>>,
    at: Vec<Position>,
    /// The block that was read last of each partition: a small batch needs a part of it only.
    last: Vec<Option<Arc<Block>>>,
    /// What the rule looks for in the events.
    wanted: Option<Wanted>,
}

/// What a rule looks for in the events.
struct Wanted {
    key: Vec<String>,
    event_time: Option<(String, TimeFormat)>,
    /// The members that it reads, when it does not read events whole.
    members: Option<Vec<String>>,
    keying: Arc<Keying>,
}

impl StreamSource {
    /// Reads a stream as this input. `start`: where a rule without positions begins, one for each partition; what is no longer there
    /// is passed over, so that 0 means the first event that is.
    pub fn new(input: InputId, log: Arc<StreamLog>, start: Vec<Position>) -> Self {
        let last = vec![None; start.len()];
        StreamSource {
            input,
            name: "stream".to_owned(),
            at: start.clone(),
            log,
            start,
            until: None,
            last,
            wanted: None,
        }
    }

    /// Names the stream in reports.
    pub fn named(self, name: &str) -> Self {
        StreamSource { name: format!("stream[{name}]"), ..self }
    }

    /// Ends at these positions, one for each partition, whatever comes after them.
    pub fn until(self, until: Vec<Position>) -> Self {
        StreamSource { until: Some(until), ..self }
    }

    /// Hands on with the records what other rules have found that look for the same key and event time.
    pub fn keyed_by(self, key: &[String], event_time: Option<&(String, TimeFormat)>) -> Result<Self> {
        let keying = self.log.keying(key, event_time, None)?;
        let wanted = Wanted { key: key.to_vec(), event_time: event_time.cloned(), members: None, keying };
        Ok(StreamSource { wanted: Some(wanted), ..self })
    }

    /// Where the stream ends for this reader.
    fn ends(&self) -> Vec<Position> {
        let mut ends = self.log.ends();
        for (end, until) in ends.iter_mut().zip(self.until.iter().flatten()) {
            *end = (*end).min(*until);
        }
        ends
    }

    /// Which partition is asked first: another one in each batch, so that one whose next event is too large for a share gets its turn.
    /// It depends on the positions alone: a run that goes on after a crash makes the batches that the one before would have made.
    fn turn(&self) -> usize {
        let read: u64 = self.at.iter().map(|at| at.line).sum();
        let mixed = read.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed as usize % self.at.len().max(1)
    }

    fn check_partitions(&self) -> Result<()> {
        let (known, there) = (self.start.len(), self.log.partitions() as usize);
        ensure!(known == there, "{} has {there} partitions, the rule knows {known}", self.name);
        Ok(())
    }

    fn read_partition(
        &mut self,
        partition: usize,
        end: Position,
        limit: ReadLimit,
        batch: &mut RecordBatch,
    ) -> Result<()> {
        let Some(range) = self.range_for(partition, batch) else { return Ok(()) };
        let mut at = self.at[partition];
        while at.line < end.line {
            let block = self.block(partition, at)?;
            let first = block.index_of(EventNumber(at.line));
            let last = block.ends.len().min(first + (end.line - at.line) as usize);
            let taken = self.take(partition, &block, first..last, range as u32, limit, batch);
            at.line += taken as u64;
            at.offset = block.start.offset + block.start_of(first + taken) as u64;
            batch.ranges[range].to = at;
            if first + taken < last {
                break;
            }
        }
        self.at[partition] = at;
        if batch.ranges[range].from == at {
            batch.ranges.truncate(range);
        }
        Ok(())
    }

    /// The range of a batch that reading on extends, new if need be. None when the partition has to wait for the next batch, because
    /// others were read after it.
    fn range_for(&self, partition: usize, batch: &mut RecordBatch) -> Option<usize> {
        let (input, file, at) = (self.input, partition.to_string(), self.at[partition]);
        if let Some(range) = batch.ranges.iter().position(|range| range.input == input && range.file == file) {
            return (range + 1 == batch.ranges.len()).then_some(range);
        }
        batch.ranges.push(OffsetRange { input, file, from: at, to: at });
        Some(batch.ranges.len() - 1)
    }

    /// The block that holds the event at this position.
    fn block(&mut self, partition: usize, at: Position) -> Result<Arc<Block>> {
        let is_in = |block: &Arc<Block>| (block.start.line..block.end().line).contains(&at.line);
        let block = match self.last[partition].take().filter(is_in) {
            Some(block) => block,
            None => {
                let found = self.log.block(partition as u32, EventNumber(at.line));
                let found = found.with_context(|| format!("failed to read {}", self.name))?;
                found.with_context(|| format!("{} has no event {} in partition {partition}", self.name, at.line))?
            }
        };
        let found = block.start.offset + block.start_of(block.index_of(EventNumber(at.line))) as u64;
        ensure!(
            found == at.offset,
            "{} has event {} of partition {partition} at byte {found}, where it was read before it was at {}: the stream is not \
             the one that the rule has read",
            self.name,
            at.line,
            at.offset
        );
        self.last[partition] = Some(Arc::clone(&block));
        Ok(block)
    }

    /// Adds events of a block to a batch, up to the limit, and what is known of them. Returns how many.
    fn take(
        &self,
        partition: usize,
        block: &Block,
        events: Range<usize>,
        range: u32,
        limit: ReadLimit,
        batch: &mut RecordBatch,
    ) -> usize {
        let (first, before) = (events.start as u32, batch.records.len());
        let taken = take(block, events, range, limit, batch);
        let is_shared = taken > 0 && block.ends.len() >= SHARED_EVENTS_MIN;
        if let Some(keying) = self.wanted.as_ref().map(|wanted| &wanted.keying).filter(|_| is_shared) {
            batch.keyed.push(KeyedRun {
                records: before..before + taken,
                first,
                of_block: self.log.events_of(partition as u32, block, keying),
                by: Arc::clone(&keying.extractor),
            });
        }
        taken
    }
}

/// Adds events of a block to a batch, up to the limit. Returns how many.
fn take(block: &Block, events: Range<usize>, range: u32, limit: ReadLimit, batch: &mut RecordBatch) -> usize {
    let (first, base) = (events.start, block.start_of(events.start));
    let text_before = batch.text.len();
    let mut taken = 0;
    for index in events {
        let held = batch.records.len() + batch.rejected.len();
        let (start, end) = (block.start_of(index), block.ends[index] as usize);
        // The first record of a batch is read however small the limit is.
        if held > 0 && (held >= limit.records_max || text_before + end - base > limit.bytes_max) {
            break;
        }
        let place = |at: usize| (text_before + at - base) as u32;
        let line = block.start.line + index as u64 + 1;
        batch.records.push(Record { start: place(start), end: place(end - 1), range, line });
        taken += 1;
    }
    batch.text.extend_from_slice(&block.text[base..block.start_of(first + taken)]);
    taken
}

impl Source for StreamSource {
    fn want(&mut self, members: Option<&[String]>) -> Result<()> {
        if let Some(wanted) = &mut self.wanted
            && wanted.members.as_deref() != members
        {
            wanted.keying = self.log.keying(&wanted.key, wanted.event_time.as_ref(), members)?;
            wanted.members = members.map(<[String]>::to_vec);
        }
        Ok(())
    }

    fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.check_partitions()?;
        let (starts, ends) = (self.log.starts(), self.log.ends());
        for (partition, (start, end)) in starts.into_iter().zip(ends).enumerate() {
            let at = match positions.get(&(self.input, partition.to_string())) {
                None => self.start[partition].max(start),
                Some(&read) => {
                    ensure!(
                        read.line >= start.line,
                        "{} begins with event {} in partition {partition}; the rule has read up to {} and needs what comes after it",
                        self.name,
                        start.line,
                        read.line
                    );
                    read
                }
            };
            ensure!(
                at.line <= end.line,
                "{} ends with event {} in partition {partition}, the rule has read {} already: events were lost",
                self.name,
                end.line,
                at.line
            );
            self.at[partition] = at;
        }
        self.last.fill(None);
        Ok(())
    }

    fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        let limit = ReadLimit { bytes_max: limit.bytes_max.min(TEXT_BYTES_MAX), ..limit };
        let ends = self.ends();
        let count = ends.len();
        let turn = self.turn();
        let before = (self.at.clone(), batch.clone_ends());
        for place in 0..count {
            let partition = (turn + place) % count;
            let share =
                |max: usize, held: usize| held.saturating_add(max.saturating_sub(held).div_ceil(count - place).max(1));
            let share = ReadLimit {
                records_max: share(limit.records_max, batch.records.len() + batch.rejected.len()),
                bytes_max: share(limit.bytes_max, batch.text.len()),
            };
            if let Err(error) = self.read_partition(partition, ends[partition], share, batch) {
                self.at = before.0;
                batch.cut_to(before.1);
                return Err(error);
            }
        }
        let has_more = self.at.iter().zip(&ends).any(|(at, end)| at.line < end.line);
        let has_ended =
            self.until.as_ref().is_some_and(|until| self.at.iter().zip(until).all(|(at, end)| at.line >= end.line));
        Ok(match (has_more, has_ended) {
            (true, _) => ReadStatus::More,
            (false, true) => ReadStatus::Ended,
            (false, false) => ReadStatus::Caught,
        })
    }

    fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        self.check_partitions()?;
        let limit = ReadLimit { records_max: usize::MAX, bytes_max: u32::MAX as usize };
        for range in ranges {
            let partition: usize =
                range.file.parse().ok().filter(|partition| *partition < self.at.len()).with_context(|| {
                    format!("{} has no partition {}, of which events were read", self.name, range.file)
                })?;
            batch.ranges.push(range.clone());
            let number = batch.ranges.len() as u32 - 1;
            let mut at = range.from;
            while at.line < range.to.line {
                let block = self.block(partition, at)?;
                let first = block.index_of(EventNumber(at.line));
                let last = block.ends.len().min(first + (range.to.line - at.line) as usize);
                let taken = self.take(partition, &block, first..last, number, limit, batch);
                if first + taken < last {
                    bail!(
                        "{}: the ranges hold more than {} bytes of text; replay fewer of them",
                        self.name,
                        limit.bytes_max
                    );
                }
                at =
                    Position { line: at.line + taken as u64, offset: block.start.offset + block.start_of(last) as u64 };
            }
            ensure!(
                at == range.to,
                "{} of partition {partition} ends at {at:?}, it was read to {:?}",
                self.name,
                range.to
            );
        }
        self.last.fill(None);
        Ok(())
    }

    fn status(&self) -> Vec<SourceStatus> {
        let ends = self.log.ends();
        let (starts, sum) = (self.log.starts(), |of: &[Position]| of.iter().map(|at| at.offset).sum::<u64>());
        let begin = sum(&starts);
        let bytes = Some((sum(&self.at).saturating_sub(begin), sum(&ends).saturating_sub(begin)));
        vec![SourceStatus { description: self.name.clone(), bytes }]
    }
}

/// What a batch held before a read.
struct Mark {
    text: usize,
    records: usize,
    keyed: usize,
    ranges: Vec<OffsetRange>,
}

trait Marked {
    fn clone_ends(&self) -> Mark;
    fn cut_to(&mut self, mark: Mark);
}

impl Marked for RecordBatch {
    fn clone_ends(&self) -> Mark {
        Mark {
            text: self.text.len(),
            records: self.records.len(),
            keyed: self.keyed.len(),
            ranges: self.ranges.clone(),
        }
    }

    fn cut_to(&mut self, mark: Mark) {
        self.text.truncate(mark.text);
        self.records.truncate(mark.records);
        self.keyed.truncate(mark.keyed);
        self.ranges = mark.ranges;
    }
}
