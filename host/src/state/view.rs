//! [`View`]: the rows of key groups as of a batch: those of the table, and over them what is different.

use super::overlay::Overlay;
use super::state_table::{self, KeyRow};
use super::{delta, delta_table, fold_table, undo_table};
use crate::event::{BatchId, KEY_GROUPS, KeyGroup};
use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Rows as of a batch.
pub(super) struct View {
    /// The rows that the table does not have as they were.
    overlay: Overlay,
    /// Up to which batch each key group is folded, once its later folds are undone. None for a group that had not been
    /// folded yet: what the table has of it came later.
    bases: Vec<Option<BatchId>>,
    /// The groups that are looked at.
    is_seen: Vec<bool>,
}

impl View {
    /// The rows of these key groups after this batch. The batch must be one that can be read.
    pub fn of(connection: &Connection, groups: &[KeyGroup], batch: BatchId) -> Result<Self> {
        let mut is_seen = vec![false; KEY_GROUPS as usize];
        groups.iter().for_each(|group| is_seen[usize::from(group.0)] = true);
        let mut view = View { overlay: Overlay::default(), bases: fold_table::read(connection)?, is_seen };
        view.undo_to(connection, batch)?;
        view.redo_to(connection, groups, batch)?;
        Ok(view)
    }

    /// The rows that differ from the table's.
    pub fn into_overlay(self) -> Overlay {
        self.overlay
    }

    /// The row of a key.
    pub fn get(&self, connection: &Connection, key: &[u8]) -> Result<Option<KeyRow>> {
        if let Some(row) = self.overlay.get(xxh3_64(key), key) {
            return Ok((!row.is_gone()).then(|| row.to_key_row()));
        }
        let group = KeyGroup::of(key);
        match self.bases[usize::from(group.0)] {
            None => Ok(None),
            Some(_) => state_table::get(connection, group, key),
        }
    }

    /// Calls `each` with every row of a key group, in the order of keys.
    pub fn scan(&self, connection: &Connection, group: KeyGroup, each: impl FnMut(KeyRow) -> Result<()>) -> Result<()> {
        let mut rows = BTreeMap::new();
        if self.bases[usize::from(group.0)].is_some() {
            state_table::scan(connection, group, |row| {
                rows.insert(row.key.clone(), row);
                Ok(())
            })?;
        }
        for row in self.overlay.group(group) {
            if row.is_gone() {
                rows.remove(row.key());
            } else {
                rows.insert(row.key().to_vec(), row.to_key_row());
            }
        }
        rows.into_values().try_for_each(each)
    }

    /// Leads every group back to its last fold that the batch has behind it.
    fn undo_to(&mut self, connection: &Connection, batch: BatchId) -> Result<()> {
        undo_table::scan_back(connection, batch, |step, bytes| {
            let place = usize::from(step.group.0);
            if !self.is_seen[place] {
                return Ok(());
            }
            ensure!(
                self.bases[place] == Some(step.batch),
                "key group {} has an undo from batch {}, and stands at {:?}: the file is damaged",
                step.group.0,
                step.batch,
                self.bases[place]
            );
            self.bases[place] = step.before;
            let undone = delta::read(bytes, |row| {
                self.overlay.apply(row);
                Ok(())
            });
            undone.with_context(|| format!("the undo of batch {} for key group {}", step.batch, step.group.0))
        })
    }

    /// Leads every group on from its base to the batch.
    fn redo_to(&mut self, connection: &Connection, groups: &[KeyGroup], batch: BatchId) -> Result<()> {
        let View { overlay, bases, is_seen } = self;
        let lowest = groups.iter().map(|group| bases[usize::from(group.0)]).min().flatten();
        for group in groups.iter().filter(|group| bases[usize::from(group.0)].is_none()) {
            // The first undo of a group leads to the empty table. What later ones say of its keys holds no longer.
            overlay.take_group(*group);
        }
        delta_table::scan(connection, lowest, batch, |number, bytes| {
            let read = delta::read(bytes, |row| {
                let place = usize::from(KeyGroup::of(row.key).0);
                if is_seen[place] && bases[place].is_none_or(|base| base < number) {
                    overlay.apply(row);
                }
                Ok(())
            });
            read.with_context(|| format!("the delta of batch {number}"))
        })
    }
}
