//! [`Run`]: one batch in one partition while it runs: groups are loaded, called and staged. Nothing of it is in the partition yet.

use super::call::{Call, LoadedGroup, Taking};
use super::{PartitionReport, Work};
use crate::evaluate::{Evaluated, Evaluator};
use crate::event::PartitionId;
use crate::group::{GROUP_INITIAL, GROUP_TIMED_OUT, GROUP_TIMED_OUT_IN_PROCESSING_TIME, TimeoutClock};
use crate::grouped::Grouped;
use crate::imported::ImportedRows;
use crate::staged::Staged;
use crate::state::PartitionDb;
use crate::state::partition_db::Thresholds;
use crate::wasm::{CallError, Reason};
use anyhow::{Result, ensure};
use hashbrown::HashSet;
use xxhash_rust::xxh3::xxh3_64;

/// Groups of one call at most: enough to make the boundary cheap, few enough that a failed call costs little.
const GROUPS_PER_CALL: usize = 1000;
/// Bytes of one call at most, unless one group alone has more.
const BYTES_PER_CALL: usize = 1024 * 1024;

/// One batch in one partition while it runs.
pub(super) struct Run<'a> {
    pub partition: PartitionId,
    pub db: &'a mut PartitionDb,
    pub work: &'a Work,
    pub grouped: &'a Grouped,
    pub imported: ImportedRows<'a>,
    pub evaluator: Evaluator<'a>,
    pub thresholds: Thresholds,
    pub staged: Staged,
    pub report: PartitionReport,
}

impl<'a> Run<'a> {
    pub fn call_groups_with_events(&mut self) -> Result<()> {
        let input = &self.work.input;
        let has_times = self.work.plan.watermark.is_some();
        let mut call = Call::default();
        for group in &self.grouped.groups {
            let event = input.event(group.first_event);
            self.load(&mut call, event.key_hash, input.extracted.key_of(event), 0)?;
            for &number in &self.grouped.events[group.start as usize..group.end as usize] {
                let event = input.event(number);
                call.columns.payloads.extend_from_slice(input.payload(event));
                call.columns.payload_ends.push(call.columns.payloads.len() as u32);
                if has_times {
                    call.columns.event_times_ms.push(event.time_ms);
                }
            }
            call.events.push((group.start, group.end));
            call.columns.close_group();
            self.call_if_full(&mut call)?;
        }
        self.call(&mut call)
    }

    /// The keys whose state is imported and that had no events in this batch.
    pub fn call_imported_groups(&mut self) -> Result<()> {
        let mut call = Call::default();
        let keys: Vec<_> = self.imported.iter().filter(|row| !row.is_called).map(|row| (row.key, row.as_is)).collect();
        for (key, as_is) in keys {
            if as_is {
                self.put_as_is(key)?;
                continue;
            }
            self.load(&mut call, xxh3_64(key), key, 0)?;
            call.events.push((0, 0));
            call.columns.close_group();
            self.call_if_full(&mut call)?;
        }
        self.call(&mut call)
    }

    pub fn call_due_groups(&mut self) -> Result<()> {
        let due = self.due_keys()?;
        let mut call = Call::default();
        for (clock, key) in due {
            let flags = match clock {
                TimeoutClock::ProcessingTime => GROUP_TIMED_OUT | GROUP_TIMED_OUT_IN_PROCESSING_TIME,
                TimeoutClock::EventTime => GROUP_TIMED_OUT,
            };
            self.load(&mut call, xxh3_64(&key), &key, flags)?;
            // What is due is found in an index. The row, whose checksum was right, has the last word.
            let timeout = call.loaded.last().and_then(|loaded| loaded.row).and_then(|row| row.timeout);
            ensure!(
                timeout.is_some_and(|timeout| timeout.clock == clock && self.thresholds.is_due(timeout)),
                "the index of timeouts has the key '{}' as due, its row has not: the file is damaged; bring the data folder \
                 back with `keyfold restore` from its checkpoint, or put a backup in its place",
                String::from_utf8_lossy(&key)
            );
            call.events.push((0, 0));
            call.columns.close_group();
            self.report.timeouts += 1;
            self.call_if_full(&mut call)?;
        }
        self.call(&mut call)
    }

    /// The keys whose timeout is due and that had no events in this batch.
    fn due_keys(&mut self) -> Result<Vec<(TimeoutClock, Vec<u8>)>> {
        let mut due = Vec::new();
        for (clock, threshold) in [
            (TimeoutClock::ProcessingTime, self.thresholds.processing_time),
            (TimeoutClock::EventTime, self.thresholds.event_time),
        ] {
            if let Some(threshold) = threshold {
                due.extend(self.db.due(clock, threshold)?.into_iter().map(|key| (clock, key)));
            }
        }
        if due.is_empty() {
            return Ok(due);
        }
        let input = &self.work.input;
        let first_events = self.grouped.groups.iter().map(|group| input.event(group.first_event));
        let called: HashSet<&[u8]> = first_events.map(|event| input.extracted.key_of(event)).collect();
        due.retain(|(_, key)| !called.contains(key.as_slice()) && !self.imported.contains(key));
        Ok(due)
    }

    fn put_as_is(&mut self, key: &[u8]) -> Result<()> {
        let before = self.db.load(xxh3_64(key), key, &mut Vec::new())?;
        if let Some(row) = self.imported.get_mut(key) {
            row.keep_timeout_of(before);
            self.staged.put(
                key,
                before.is_some(),
                row.state.as_ref().map(|(state, schema)| (state.as_slice(), *schema)),
                row.timeout,
            );
        }
        Ok(())
    }

    /// Adds a key with its state to a call. An imported state takes the place of the one that the key had.
    fn load(&mut self, call: &mut Call, hash: u64, key: &[u8], mut flags: u8) -> Result<()> {
        let states = call.columns.states.len();
        let row = self.db.load(hash, key, &mut call.columns.states)?;
        let mut loaded = LoadedGroup { row, existed: row.is_some(), imported: false };
        if let Some(imported) = self.imported.get_mut(key) {
            call.columns.states.truncate(states);
            imported.keep_timeout_of(row);
            call.columns.states.extend_from_slice(imported.bytes());
            (loaded.row, loaded.imported) = (Some(imported.loaded()), true);
            imported.is_called = true;
            flags |= if imported.as_is { 0 } else { GROUP_INITIAL };
        }
        call.columns.keys.extend_from_slice(key);
        call.columns.state_schemas.push(loaded.row.and_then(|row| row.schema).unwrap_or(0));
        call.columns.flags.push(flags);
        call.loaded.push(loaded);
        Ok(())
    }

    fn call_if_full(&mut self, call: &mut Call) -> Result<()> {
        if call.columns.len() >= GROUPS_PER_CALL || call.columns.bytes() >= BYTES_PER_CALL {
            self.call(call)?;
        }
        Ok(())
    }

    fn call(&mut self, call: &mut Call) -> Result<()> {
        if call.columns.is_empty() {
            return Ok(());
        }
        self.report.groups += call.columns.len() as u64;
        let description = self.work.component.description();
        let readable = |schema: u32| schema == 0 || description.readable_schemas.contains(&schema);
        if call.columns.state_schemas.iter().all(|&schema| readable(schema)) {
            let (evaluator, mut taking) = self.parts();
            evaluator.evaluate(&call.columns, |group, evaluated| taking.take(call, group, &evaluated))?;
        } else {
            self.call_readable(call, readable)?;
        }
        call.columns.clear();
        call.loaded.clear();
        call.events.clear();
        Ok(())
    }

    /// Some states were written under a schema that the rule does not read: their groups fail, the others are called.
    fn call_readable(&mut self, call: &Call, readable: impl Fn(u32) -> bool) -> Result<()> {
        for group in 0..call.columns.len() {
            let schema = call.columns.state_schemas[group];
            let (evaluator, mut taking) = self.parts();
            if readable(schema) {
                let alone = call.columns.slice(group..group + 1);
                evaluator.evaluate(&alone, |_, evaluated| taking.take(call, group, &evaluated))?;
                continue;
            }
            let message = format!(
                "the state has schema {schema}, the rule reads {:?}: run a version that reads it",
                taking.work.component.description().readable_schemas
            );
            let error = CallError::new(Reason::UnreadableState, message);
            taking.take(call, group, &Evaluated { outcome: Err(&error), fuel: 0 });
        }
        Ok(())
    }

    /// The evaluator, and where its outcomes go.
    fn parts(&mut self) -> (&mut Evaluator<'a>, Taking<'_>) {
        let Run { partition, evaluator, staged, report, work, grouped, thresholds, .. } = self;
        (evaluator, Taking { staged, report, work, grouped, thresholds: *thresholds, partition: *partition })
    }
}

/// Which timeouts this batch fires: those of the clocks that the rule uses.
pub(super) fn thresholds(work: &Work) -> Thresholds {
    let timeout = work.component.description().timeout;
    if work.plan.batch_query {
        return Thresholds { processing_time: None, event_time: None };
    }
    Thresholds {
        processing_time: timeout.allows_processing_time().then_some(work.plan.time),
        event_time: work.plan.watermark.filter(|_| timeout.allows_event_time()),
    }
}
