//! Migrating: states of earlier generations are rewritten as the version that runs writes them: before a call of their key, or by the
//! sweep, which visits some key groups in each batch.

use super::call::{Call, Migration};
use super::run::{BYTES_PER_CALL, GROUPS_PER_CALL, Run};
use crate::event::KeyGroup;
use crate::generation::{Mark, Owner};
use crate::group::item;
use crate::staged::NewRow;
use crate::state::reader::KeyRow;
use crate::wasm::{CallError, Reason};
use anyhow::Result;
use hashbrown::HashSet;
use std::collections::BTreeMap;

/// What the sweep of one batch may write in one partition: few enough that the batch takes hardly longer.
const SWEEP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// When so many states fail in the sweep of one batch, the migration is wrong and not the states: it is given up.
const SWEEP_FAILURES_MAX: u64 = 64;

/// What the sweep of one batch did in one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Key groups before this one are done. None when the batch had no sweep.
    pub to: Option<u16>,
    /// Rows that were rewritten or deleted.
    pub rows: u64,
    /// Rows that the rule did not rewrite. They stay as they are.
    pub failed: u64,
    /// Whether so many failed that it makes no sense to go on.
    pub is_given_up: bool,
}

impl Run<'_> {
    /// Rewrites the states of a call that need it. What could not be rewritten is returned, and is as it was.
    pub(super) fn migrate(&mut self, call: &mut Call) -> Result<BTreeMap<usize, CallError>> {
        let mut by_schema: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (group, loaded) in call.loaded.iter().enumerate() {
            if loaded.migration == Migration::Needed {
                by_schema.entry(call.columns.state_schemas[group]).or_default().push(group);
            }
        }
        let mut failed = BTreeMap::new();
        if by_schema.is_empty() {
            return Ok(failed);
        }
        let written = self.work.component.description().state_schema;
        let mut migrated: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for (schema, groups) in by_schema {
            let state_of = |&group: &usize| item(&call.columns.states, &call.columns.state_ends, group);
            let states: Vec<&[u8]> = groups.iter().map(state_of).collect();
            self.runners[0].evaluator.migrate(schema, &states, |number, state| match state {
                Ok(state) => drop(migrated.insert(groups[number], state.to_vec())),
                Err(error) => drop(failed.insert(groups[number], migration_failed(schema, written, error))),
            })?;
        }
        let mut states = Vec::with_capacity(call.columns.states.len());
        let mut ends = Vec::with_capacity(call.columns.len());
        for group in 0..call.columns.len() {
            match migrated.get(&group) {
                Some(state) => states.extend_from_slice(state),
                None => states.extend_from_slice(item(&call.columns.states, &call.columns.state_ends, group)),
            }
            ends.push(states.len() as u32);
        }
        (call.columns.states, call.columns.state_ends) = (states, ends);
        for group in migrated.into_keys() {
            let loaded = &mut call.loaded[group];
            loaded.migration = Migration::Done;
            let mark = Mark { generation: loaded.generation, schema: Some(written) };
            loaded.row = loaded.row.map(|row| crate::state::Loaded { mark, ..row });
            call.columns.state_schemas[group] = written;
        }
        Ok(failed)
    }

    /// Rewrites rows of earlier generations in the key groups that are this batch's part of the sweep, or deletes them.
    pub(super) fn sweep(&mut self) -> Result<()> {
        let Some((from, to)) = self.work.plan.sweep else { return Ok(()) };
        self.report.swept.to = Some(to);
        let mut put: HashSet<Vec<u8>> = HashSet::new();
        let is_swept = |key: &[u8]| (from..to).contains(&KeyGroup::of(key).0);
        self.staged.delta.each(|row| {
            if is_swept(row.key) {
                put.insert(row.key.to_vec());
            }
        });
        let begins_at = self.staged.delta.bytes();
        for group in from..to {
            let mut rows = self.db.rows_of_group(KeyGroup(group))?;
            rows.retain(|row| !put.contains(&row.key));
            let mut rest = rows.as_slice();
            while let Some(part) = self.next_part(&mut rest) {
                self.sweep_part(part)?;
                if self.report.swept.failed >= SWEEP_FAILURES_MAX {
                    self.report.swept.is_given_up = true;
                    return Ok(());
                }
                if self.staged.delta.bytes() - begins_at > SWEEP_BYTES_MAX {
                    // What was done of this group is of the new generation, so the next batch does the rest.
                    self.report.swept.to = Some(group);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// As many rows as go into one call.
    fn next_part<'r>(&self, rest: &mut &'r [KeyRow]) -> Option<&'r [KeyRow]> {
        let mut bytes = 0;
        let fits = |row: &&KeyRow| {
            bytes += row.state.as_ref().map_or(0, |(state, _)| state.len());
            bytes <= BYTES_PER_CALL
        };
        let count = rest.iter().take(GROUPS_PER_CALL).take_while(fits).count().max(1);
        let (part, left) = rest.split_at_checked(count)?;
        *rest = left;
        Some(part)
    }

    fn sweep_part(&mut self, rows: &[KeyRow]) -> Result<()> {
        let written = self.work.component.description().state_schema;
        let generation = self.work.plan.generation;
        let mut by_schema: BTreeMap<u32, Vec<&KeyRow>> = BTreeMap::new();
        for row in rows {
            let mark = row.mark();
            match (self.owners.owner(mark.generation), row.value()) {
                (Owner::Current | Owner::Drained(_), _) => {}
                (Owner::Nobody, _) => {
                    self.staged.delete(&row.key, mark);
                    self.report.swept.rows += 1;
                }
                (Owner::Migrated, Some((_, schema))) if schema != written => {
                    by_schema.entry(schema).or_default().push(row);
                }
                (Owner::Migrated, value) => {
                    let state = value.map_or(&[][..], |(state, _)| state);
                    let new = NewRow { mark: Mark { generation, ..mark }, state, timeout: row.timeout };
                    self.staged.put(&row.key, Some(mark), new);
                    self.report.swept.rows += 1;
                }
            }
        }
        for (schema, rows) in by_schema {
            let states: Vec<&[u8]> = rows.iter().map(|row| row.value().map_or(&[][..], |(state, _)| state)).collect();
            let Run { runners, staged, report, .. } = self;
            runners[0].evaluator.migrate(schema, &states, |number, state| {
                let row = rows[number];
                match state {
                    Ok(state) => {
                        let mark = Mark { generation, schema: Some(written) };
                        staged.put(&row.key, Some(row.mark()), NewRow { mark, state, timeout: row.timeout });
                        report.swept.rows += 1;
                    }
                    Err(error) => {
                        if report.swept.failed == 0 {
                            let key = String::from_utf8_lossy(&row.key);
                            tracing::warn!("the state of the key '{key}' was not migrated: {error}");
                        }
                        report.swept.failed += 1;
                    }
                }
            })?;
        }
        Ok(())
    }
}

/// One reason for all that can go wrong, so that those whose state is not to be lost are found together.
fn migration_failed(from: u32, to: u32, error: &CallError) -> CallError {
    let message = format!("the state was not migrated from schema {from} to {to}: {error}");
    CallError { reason: Reason::MigrationFailed, message, ..error.clone() }
}
