//! A batch query: the rule once over all of its input, as Spark runs the same function on a table. Each key is called once with
//! all its events, and no state is kept.
//!
//! Memory is bounded whatever the input: when the events do not fit, the input is read several times, and each pass keeps the
//! events of some of the key groups.

use super::{Host, Observer, POLL, wait};
use crate::event::{KEY_GROUPS, KeyGroup, OffsetRange, Positions, Record, RecordBatch};
use crate::input::BatchInput;
use crate::progress::BatchTimes;
use crate::source::{ReadLimit, ReadStatus, Source};
use anyhow::{Result, ensure};
use std::sync::atomic::{AtomicBool, Ordering};

/// What is read at once while a pass is collected.
const BLOCK: ReadLimit = ReadLimit { records_max: 100_000, bytes_max: 16 * 1024 * 1024 };

/// The events of some key groups.
struct Pass {
    kept: RecordBatch,
    /// The key group of each kept record; none for one that is no event.
    groups: Vec<Option<KeyGroup>>,
    /// Bytes of text of each key group.
    bytes: Vec<usize>,
    first: u32,
    /// The first key group that is left to a later pass.
    end: u32,
}

impl Host {
    pub(super) fn run_batch_query(
        &mut self,
        source: &mut dyn Source,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut first = 0;
        while first < KEY_GROUPS && !stop.load(Ordering::Relaxed) {
            let mut times = BatchTimes::start(self.clock.now());
            let pass = self.collect(source, stop, first)?;
            first = pass.end;
            times.read();
            if !pass.kept.records.is_empty() || !pass.kept.rejected.is_empty() {
                self.begin(pass.kept, times, None)?;
                self.settle_all(source, observer)?;
            }
        }
        Ok(())
    }

    fn collect(&mut self, source: &mut dyn Source, stop: &AtomicBool, first: u32) -> Result<Pass> {
        let mut pass = Pass {
            kept: RecordBatch::default(),
            groups: Vec::new(),
            bytes: vec![0; KEY_GROUPS as usize],
            first,
            end: KEY_GROUPS,
        };
        self.imports.seek(&Positions::new())?;
        source.seek(&Positions::new())?;
        while !stop.load(Ordering::Relaxed) {
            let mut block = RecordBatch::default();
            let mut status = self.imports.read(BLOCK, &mut block)?;
            if status != ReadStatus::More {
                status = source.read(BLOCK, &mut block)?;
            }
            if status == ReadStatus::Caught && block.ranges.is_empty() {
                wait(POLL, stop);
            }
            pass.add(self.batch_input(block));
            pass.shrink(self.settings.batch.bytes_max)?;
            if status == ReadStatus::Ended {
                break;
            }
        }
        Ok(pass)
    }
}

impl Pass {
    fn add(&mut self, block: BatchInput) {
        let mut groups = vec![None; block.records.records.len()];
        for event in &block.extracted.events {
            groups[event.record as usize] = Some(KeyGroup::of_hash(event.key_hash));
        }
        for (record, key) in block.imported_keys() {
            groups[record as usize] = Some(KeyGroup::of(key));
        }
        let ranges: Vec<u32> = block.records.ranges.iter().map(|range| self.range_of(range)).collect();
        for (record, group) in block.records.records.iter().zip(groups) {
            // What is no event is told of once.
            if group.map_or(self.first == 0, |group| (self.first..self.end).contains(&u32::from(group.0))) {
                self.keep(block.records.text_of(record), ranges[record.range as usize], record.line, group);
            }
        }
        if self.first == 0 {
            let rejected = block.records.rejected.into_iter();
            self.kept.rejected.extend(rejected.map(|mut rejected| {
                rejected.range = ranges[rejected.range as usize];
                rejected
            }));
        }
    }

    fn keep(&mut self, text: &[u8], range: u32, line: u64, group: Option<KeyGroup>) {
        let start = self.kept.text.len();
        self.kept.text.extend_from_slice(text);
        // The text stays below 4 GiB: see `shrink` and the limit of a block.
        self.kept.records.push(Record { start: start as u32, end: self.kept.text.len() as u32, range, line });
        self.groups.push(group);
        if let Some(group) = group {
            self.bytes[usize::from(group.0)] += text.len();
        }
    }

    /// The number of a range among those that are kept, continued where it goes on.
    fn range_of(&mut self, range: &OffsetRange) -> u32 {
        let ranges = &mut self.kept.ranges;
        match ranges.last_mut() {
            Some(last) if last.input == range.input && last.file == range.file && last.to == range.from => {
                last.to = range.to;
            }
            _ => ranges.push(range.clone()),
        }
        (ranges.len() - 1) as u32
    }

    /// Leaves key groups to a later pass when the events do not fit: so many that half of the memory is free again.
    fn shrink(&mut self, bytes_max: usize) -> Result<()> {
        if self.kept.text.len() <= bytes_max {
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
            "the events of a few keys have more than {bytes_max} bytes together, and a batch query holds all events of a key: \
             raise batch-bytes in the rule file, or run without --batch"
        );
        self.end = end;
        let before = std::mem::take(&mut self.kept);
        self.kept.ranges = before.ranges.clone();
        self.kept.rejected = before.rejected.clone();
        self.bytes.fill(0);
        for (record, group) in before.records.iter().zip(std::mem::take(&mut self.groups)) {
            if group.is_none_or(|group| u32::from(group.0) < end) {
                self.keep(before.text_of(record), record.range, record.line, group);
            }
        }
        Ok(())
    }
}
