//! A batch query: the rule once over all of its input, as Spark runs the same function on a table. Each key is called once with
//! all its events, and no state is kept.
//!
//! Memory is bounded whatever the input: when the events do not fit, the input is read several times, and each pass keeps the
//! events of some of the key groups.

use super::{Host, Observer, Outbox, POLL, wait};
use crate::event::{InputId, KEY_GROUPS, KeyGroup, OffsetRange, Position, Positions, Record, RecordBatch};
use crate::input::BatchInput;
use crate::progress::BatchTimes;
use crate::source::{ReadLimit, ReadStatus, Source};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is read at once while a pass is collected.
const BLOCK: ReadLimit = ReadLimit { records_max: 100_000, bytes_max: 16 * 1024 * 1024 };
/// What an event takes besides its text, roughly: its record, its key group, its place in a group.
const EVENT_BYTES: usize = 80;
/// Records that are no events are told of when they take so much.
const STRAYS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The events of some key groups.
struct Pass {
    kept: Kept,
    /// The key group of each kept record.
    groups: Vec<KeyGroup>,
    /// What the events of each key group take.
    bytes: Vec<usize>,
    first: u32,
    /// The first key group that is left to a later pass.
    end: u32,
    /// Records that are no events.
    strays: Kept,
}

/// Records of many reads as one batch.
#[derive(Default)]
struct Kept(RecordBatch);

/// How far a pass has read.
type Ends = BTreeMap<(InputId, String), Position>;

impl Host {
    pub(super) fn run_batch_query(
        &mut self,
        source: &mut dyn Source,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        self.query_time = Some(self.now());
        let mut first = 0;
        let mut first_ends = None;
        while first < KEY_GROUPS {
            let mut times = BatchTimes::start(self.clock.now());
            let mut pass = Pass::new(first);
            let ends = self.collect(&mut pass, source, stop, observer)?;
            ensure!(
                *first_ends.get_or_insert_with(|| ends.clone()) == ends,
                "the input has changed while it was read for the second time: run the batch query on files that stay as they are, \
                 or raise batch-bytes so that one time is enough"
            );
            first = pass.end;
            times.read();
            self.hold_back(stop, observer)?;
            if !pass.kept.0.records.is_empty() {
                self.begin(pass.kept.0, times, None)?;
                self.settle_all(source, observer)?;
            }
        }
        self.finish_delivery(stop, observer)?;
        let Outbox { batches, outputs, .. } = self.deliveries.outbox();
        // Nothing is kept of a batch query, so no later run could deliver them.
        ensure!(batches == 0, "stopped before {outputs} outputs were delivered");
        Ok(())
    }

    /// Reads all of the input. What is no event is told of in the first pass, in batches of its own.
    fn collect(
        &mut self,
        pass: &mut Pass,
        source: &mut dyn Source,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Ends> {
        let mut ends = Ends::new();
        self.imports.seek(&Positions::new())?;
        source.seek(&Positions::new())?;
        loop {
            // A rule that got half of its events would give wrong outputs.
            ensure!(
                !stop.load(Ordering::Relaxed),
                "stopped before all of the input was read{}",
                if pass.first == 0 { "" } else { "; the outputs of other keys are written already" }
            );
            let times = BatchTimes::start(self.clock.now());
            let mut block = RecordBatch::default();
            let mut status = self.imports.read(BLOCK, &mut block)?;
            if status != ReadStatus::More {
                status = source.read(BLOCK, &mut block)?;
            }
            if status == ReadStatus::Caught && block.ranges.is_empty() {
                wait(POLL, stop);
            }
            ends.extend(block.ranges.iter().map(|range| ((range.input, range.file.clone()), range.to)));
            pass.add(self.batch_input(block, &self.component, &[])?);
            pass.shrink(self.settings.batch.bytes_max)?;
            let is_last = status == ReadStatus::Ended;
            if pass.strays.bytes() > if is_last { 0 } else { STRAYS_BYTES_MAX } {
                self.hold_back(stop, observer)?;
                self.begin(std::mem::take(&mut pass.strays).0, times, None)?;
                self.settle_all(source, observer)?;
            }
            if is_last {
                return Ok(ends);
            }
        }
    }
}

impl Pass {
    fn new(first: u32) -> Self {
        Pass {
            kept: Kept::default(),
            groups: Vec::new(),
            bytes: vec![0; KEY_GROUPS as usize],
            first,
            end: KEY_GROUPS,
            strays: Kept::default(),
        }
    }

    fn add(&mut self, block: BatchInput) {
        let mut groups = vec![None; block.records.records.len()];
        for event in &block.extracted.events {
            groups[event.record as usize] = Some(KeyGroup::of_hash(event.key_hash));
        }
        for (record, key) in block.imported_keys() {
            groups[record as usize] = Some(KeyGroup::of(key));
        }
        let records = block.records.records.iter().zip(groups);
        for (record, group) in records {
            let (text, range) = (block.records.text_of(record), &block.records.ranges[record.range as usize]);
            match group {
                Some(group) if (self.first..self.end).contains(&u32::from(group.0)) => {
                    self.kept.add(text, range, record.line);
                    self.groups.push(group);
                    self.bytes[usize::from(group.0)] += text.len() + EVENT_BYTES;
                }
                None if self.first == 0 => self.strays.add(text, range, record.line),
                _ => {}
            }
        }
        if self.first == 0 {
            for mut rejected in block.records.rejected {
                rejected.range = self.strays.range_of(&block.records.ranges[rejected.range as usize]);
                self.strays.0.rejected.push(rejected);
            }
        }
    }

    /// Leaves key groups to a later pass when the events do not fit: so many that half of the memory is free again.
    fn shrink(&mut self, bytes_max: usize) -> Result<()> {
        if self.kept.bytes() <= bytes_max {
            return Ok(());
        }
        let mut left = 0;
        let fits = |&group: &u32| {
            left += self.bytes[group as usize];
            left <= bytes_max / 2
        };
        let end = (self.first..self.end).take_while(fits).last().map_or(self.first + 1, |group| group + 1);
        let bytes: usize = self.bytes[self.first as usize..end as usize].iter().sum();
        ensure!(
            bytes <= bytes_max,
            "the events of a few keys take more than {bytes_max} bytes together, and a batch query holds all events of a key: \
             raise batch-bytes in the rule file, or run without --batch"
        );
        self.end = end;
        let before = std::mem::take(&mut self.kept.0);
        let groups = std::mem::take(&mut self.groups);
        for (record, group) in before.records.iter().zip(groups) {
            if u32::from(group.0) < end {
                self.kept.add(before.text_of(record), &before.ranges[record.range as usize], record.line);
                self.groups.push(group);
            }
        }
        self.bytes[end as usize..].fill(0);
        Ok(())
    }
}

impl Kept {
    /// What the records take, roughly.
    fn bytes(&self) -> usize {
        self.0.text.len() + EVENT_BYTES * (self.0.records.len() + self.0.rejected.len())
    }

    fn add(&mut self, text: &[u8], range: &OffsetRange, line: u64) {
        let range = self.range_of(range);
        let start = self.0.text.len();
        self.0.text.extend_from_slice(text);
        // The text stays below 4 GiB: see the limit of `batch-bytes`, which a block is added to at most.
        self.0.records.push(Record { start: start as u32, end: self.0.text.len() as u32, range, line });
    }

    /// The number of a range among those that are kept, continued where it goes on.
    fn range_of(&mut self, range: &OffsetRange) -> u32 {
        let ranges = &mut self.0.ranges;
        match ranges.last_mut() {
            Some(last) if last.input == range.input && last.file == range.file => last.to = range.to,
            _ => ranges.push(range.clone()),
        }
        (ranges.len() - 1) as u32
    }
}
