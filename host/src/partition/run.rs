//! [`Run`]: one batch in one partition while it runs: groups are loaded, called and staged. Nothing of it is in the partition yet.

use super::call::{Call, LoadedGroup, Migration, Taking};
use super::{PartitionReport, Work};
use crate::evaluate::Evaluator;
use crate::event::PartitionId;
use crate::generation::{Owner, Owners};
use crate::group::{BatchContext, GROUP_INITIAL, GROUP_TIMED_OUT, GROUP_TIMED_OUT_IN_PROCESSING_TIME, TimeoutClock};
use crate::grouped::{EventGroup, Grouped};
use crate::imported::ImportedRows;
use crate::staged::{NewRow, Staged};
use crate::state::PartitionDb;
use crate::state::overlay::NEAR;
use crate::state::partition_db::Thresholds;
use crate::wasm::{CallError, Reason};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Groups of one call at most: enough to make the boundary cheap, few enough that a failed call costs little.
pub(super) const GROUPS_PER_CALL: usize = 1000;
/// Bytes of one call at most, unless one group alone has more.
pub(super) const BYTES_PER_CALL: usize = 1024 * 1024;

/// One batch in one partition while it runs.
pub(super) struct Run<'a> {
    pub partition: PartitionId,
    pub db: &'a mut PartitionDb,
    pub work: &'a Work,
    pub grouped: &'a Grouped,
    pub imported: ImportedRows<'a>,
    /// The version that runs, and after it those that are drained.
    pub runners: Vec<Runner<'a>>,
    pub owners: &'a Owners,
    pub thresholds: Thresholds,
    pub staged: Staged,
    pub report: PartitionReport,
    /// Where a state is loaded to before it is known who gets it.
    pub loading: Vec<u8>,
}

/// A version of the rule, and the groups that wait for its next call.
pub(super) struct Runner<'a> {
    pub evaluator: Evaluator<'a>,
    pub call: Call,
}

impl Runner<'_> {
    /// One for each version that the work names.
    pub fn all<'a>(work: &'a Work, context: &'a BatchContext) -> Vec<Runner<'a>> {
        let evaluator = |version| Evaluator::new(version, context, &work.cpu, &*work.log);
        work.versions().map(|version| Runner { evaluator: evaluator(version), call: Call::default() }).collect()
    }
}

impl<'a> Run<'a> {
    pub fn call_groups_with_events(&mut self) -> Result<()> {
        let (input, grouped) = (&self.work.input, self.grouped);
        let has_times = self.work.plan.watermark.is_some();
        for (place, group) in grouped.groups.iter().enumerate() {
            if place % NEAR == 0 {
                self.touch(&grouped.groups[place..][..NEAR.min(grouped.groups.len() - place)]);
            }
            let event = input.event(group.first_event);
            let runner = self.load(event.key_hash, input.extracted.key_of(event), 0)?;
            let call = &mut self.runners[runner].call;
            for &number in &grouped.events[group.start as usize..group.end as usize] {
                let event = input.event(number);
                call.columns.payloads.extend_from_slice(input.payload(event));
                call.columns.payload_ends.push(call.columns.payloads.len() as u32);
                if has_times {
                    call.columns.event_times_ms.push(event.time_ms);
                }
            }
            self.close_group(runner, (group.start, group.end))?;
        }
        self.call_all()
    }

    /// Brings near what the calls of these groups are made of.
    fn touch(&self, groups: &[EventGroup]) {
        let (input, grouped) = (&self.work.input, self.grouped);
        self.db.touch(groups.iter().map(|group| input.event(group.first_event).key_hash));
        let events = groups.iter().flat_map(|group| &grouped.events[group.start as usize..group.end as usize]);
        let first_byte = |bytes: &[u8]| bytes.first().copied().unwrap_or_default();
        let keys = groups.iter().map(|group| first_byte(input.extracted.key_of(input.event(group.first_event))));
        let payloads = events.map(|&number| first_byte(input.payload(input.event(number))));
        std::hint::black_box(keys.chain(payloads).fold(0, |seen, byte| seen ^ byte));
    }

    /// The keys whose state is imported and that had no events in this batch.
    pub fn call_imported_groups(&mut self) -> Result<()> {
        let keys: Vec<_> = self.imported.iter().filter(|row| !row.is_called).map(|row| (row.key, row.as_is)).collect();
        for (key, as_is) in keys {
            if as_is {
                self.put_as_is(key)?;
                continue;
            }
            let runner = self.load(xxh3_64(key), key, 0)?;
            self.close_group(runner, (0, 0))?;
        }
        self.call_all()
    }

    pub fn call_due_groups(&mut self) -> Result<()> {
        let due = self.due_keys()?;
        for (place, (clock, key)) in due.iter().enumerate() {
            if place % NEAR == 0 {
                self.db.touch(due[place..].iter().take(NEAR).map(|(_, key)| xxh3_64(key)));
            }
            if self.drop_forgotten(key)? {
                continue;
            }
            let flags = match clock {
                TimeoutClock::ProcessingTime => GROUP_TIMED_OUT | GROUP_TIMED_OUT_IN_PROCESSING_TIME,
                TimeoutClock::EventTime => GROUP_TIMED_OUT,
            };
            let runner = self.load(xxh3_64(key), key, flags)?;
            // What is due is found in an index. The row, whose checksum was right, has the last word.
            let loaded = self.runners[runner].call.loaded.last();
            let timeout = loaded.and_then(|loaded| loaded.row).and_then(|row| row.timeout);
            ensure!(
                timeout.is_some_and(|timeout| timeout.clock == *clock && self.thresholds.is_due(timeout)),
                "the index of timeouts has the key '{}' as due, its row has not: the file is damaged; bring the data folder \
                 back with `keyfold restore` from its checkpoint, or put a backup in its place",
                String::from_utf8_lossy(key)
            );
            self.report.timeouts += 1;
            self.close_group(runner, (0, 0))?;
        }
        self.call_all()
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
        let (input, grouped) = (&self.work.input, self.grouped);
        due.retain(|(_, key)| !grouped.has(input, xxh3_64(key), key) && !self.imported.contains(key));
        Ok(due)
    }

    fn put_as_is(&mut self, key: &[u8]) -> Result<()> {
        let stored = self.db.load(xxh3_64(key), key, &mut Vec::new())?;
        let kept = stored.filter(|row| self.owners.owner(row.mark.generation) != Owner::Nobody);
        if let Some(row) = self.imported.get_mut(key) {
            row.keep_timeout_of(kept);
            // What is put in from outside belongs to the version that runs.
            let mark = row.loaded(self.work.plan.generation).mark;
            let new = NewRow { mark, state: row.bytes(), timeout: row.timeout };
            self.staged.put(key, stored.map(|row| row.mark), new);
        }
        Ok(())
    }

    /// A row that counts as absent cannot be called for its timeout. It is deleted, or it would be due for ever.
    fn drop_forgotten(&mut self, key: &[u8]) -> Result<bool> {
        if self.work.plan.older.is_empty() {
            return Ok(false);
        }
        let stored = self.db.load(xxh3_64(key), key, &mut Vec::new())?;
        match stored.map(|row| row.mark) {
            Some(mark) if self.owners.owner(mark.generation) == Owner::Nobody => {
                self.staged.delete(key, mark);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Adds a key with its state to the call of the version that has it, and tells which that is. An imported state takes the place
    /// of the one that the key had.
    fn load(&mut self, hash: u64, key: &[u8], mut flags: u8) -> Result<usize> {
        self.loading.clear();
        let row = self.db.load(hash, key, &mut self.loading)?;
        let generation = self.work.plan.generation;
        let stored = row.map(|row| row.mark);
        let mut loaded = LoadedGroup { row, stored, imported: false, generation, migration: Migration::None };
        let mut runner = 0;
        match row.map_or(Owner::Current, |row| self.owners.owner(row.mark.generation)) {
            Owner::Current => {}
            Owner::Migrated => self.plan_migration(&mut loaded),
            Owner::Nobody => {
                self.loading.clear();
                loaded.row = None;
            }
            Owner::Drained(number) => {
                runner = 1 + number;
                loaded.generation = row.map_or(generation, |row| row.mark.generation);
            }
        }
        if let Some(imported) = self.imported.get_mut(key) {
            imported.keep_timeout_of(loaded.row);
            self.loading.clear();
            self.loading.extend_from_slice(imported.bytes());
            let row = Some(imported.loaded(generation));
            loaded = LoadedGroup { row, stored, imported: true, generation, migration: Migration::None };
            runner = 0;
            imported.is_called = true;
            flags |= if imported.as_is { 0 } else { GROUP_INITIAL };
        }
        let call = &mut self.runners[runner].call;
        call.columns.keys.extend_from_slice(key);
        call.columns.states.extend_from_slice(&self.loading);
        call.columns.state_schemas.push(loaded.row.and_then(|row| row.mark.schema).unwrap_or(0));
        call.columns.flags.push(flags);
        call.loaded.push(loaded);
        Ok(runner)
    }

    /// A row of an earlier generation whose state is as this version writes it, or that has none, needs no call.
    fn plan_migration(&self, loaded: &mut LoadedGroup) {
        let written = self.work.component.description().state_schema;
        if let Some(row) = &mut loaded.row {
            if row.mark.schema.is_some_and(|schema| schema != written) {
                loaded.migration = Migration::Needed;
            } else {
                row.mark.generation = loaded.generation;
                loaded.migration = Migration::Done;
            }
        }
    }

    /// Ends the group that was added last, and calls when that is enough for one call.
    fn close_group(&mut self, runner: usize, events: (u32, u32)) -> Result<()> {
        let call = &mut self.runners[runner].call;
        call.events.push(events);
        call.columns.close_group();
        if call.columns.len() >= GROUPS_PER_CALL || call.columns.bytes() >= BYTES_PER_CALL {
            self.call(runner)?;
        }
        Ok(())
    }

    fn call_all(&mut self) -> Result<()> {
        (0..self.runners.len()).try_for_each(|runner| self.call(runner))
    }

    fn call(&mut self, runner: usize) -> Result<()> {
        if self.runners[runner].call.columns.is_empty() {
            return Ok(());
        }
        let mut call = std::mem::take(&mut self.runners[runner].call);
        self.report.groups += call.columns.len() as u64;
        let failed = self.migrate(&mut call)?;
        let description = self.runners[runner].evaluator.version().component.description();
        let readable = |schema: u32| schema == 0 || description.readable_schemas.contains(&schema);
        if failed.is_empty() && call.columns.state_schemas.iter().all(|&schema| readable(schema)) {
            let (evaluator, mut taking) = self.parts(runner);
            evaluator.evaluate(&call.columns, |group, evaluated| taking.take(&call, group, &evaluated))?;
        } else {
            self.call_readable(runner, &call, &failed, readable)?;
        }
        call.clear();
        self.runners[runner].call = call;
        Ok(())
    }

    /// Some states were not migrated, or were written under a schema that the rule does not read: their groups fail, the others are
    /// called.
    fn call_readable(
        &mut self,
        runner: usize,
        call: &Call,
        failed: &BTreeMap<usize, CallError>,
        readable: impl Fn(u32) -> bool,
    ) -> Result<()> {
        for group in 0..call.columns.len() {
            let schema = call.columns.state_schemas[group];
            let (evaluator, mut taking) = self.parts(runner);
            if let Some(error) = failed.get(&group) {
                taking.fail(call, group, error);
            } else if readable(schema) {
                let alone = call.columns.slice(group..group + 1);
                evaluator.evaluate(&alone, |_, evaluated| taking.take(call, group, &evaluated))?;
            } else {
                let message = format!(
                    "the state has schema {schema}, the rule reads {:?}: run a version that reads it",
                    taking.component.description().readable_schemas
                );
                taking.fail(call, group, &CallError::new(Reason::UnreadableState, message));
            }
        }
        Ok(())
    }

    /// The evaluator of a version, and where its outcomes go.
    fn parts(&mut self, runner: usize) -> (&mut Evaluator<'a>, Taking<'_>) {
        let Run { partition, runners, staged, report, work, grouped, thresholds, .. } = self;
        let evaluator = &mut runners[runner].evaluator;
        let component = evaluator.version().component;
        let (partition, thresholds) = (*partition, *thresholds);
        (evaluator, Taking { staged, report, work, grouped, thresholds, partition, component })
    }
}

/// Which timeouts this batch fires: those of the clocks that one of its versions uses.
pub(super) fn thresholds(work: &Work) -> Thresholds {
    if work.plan.batch_query {
        return Thresholds { processing_time: None, event_time: None };
    }
    let kinds = || work.versions().map(|version| version.component.description().timeout);
    Thresholds {
        processing_time: kinds().any(|kind| kind.allows_processing_time()).then_some(work.plan.time),
        event_time: work.plan.watermark.filter(|_| kinds().any(|kind| kind.allows_event_time())),
    }
}
