//! [`Fold`]: the changed rows of some key groups go from the overlay into the table.

use super::delta::{DeltaBuilder, DeltaRow};
use super::overlay::{Overlay, Row};
use super::undo_table::{self, UndoStep};
use super::{fold_table, state_table};
use crate::event::{BatchId, KeyGroup};
use anyhow::Result;
use rusqlite::Connection;

/// Reading a row by its key takes as long as reading so many rows one after another.
const ROWS_OF_A_LOOKUP: u64 = 4;

/// What one commit folds.
pub(super) struct Fold {
    /// The key groups.
    pub groups: Vec<KeyGroup>,
    /// Up to this batch; none before the first commit, when there is nothing to fold.
    pub to: Option<BatchId>,
    /// Whether a batch before it can be read, and needs the rows as they were.
    pub keeps_undo: bool,
    /// How many rows a key group has in the table, roughly.
    pub rows_of_group: u64,
}

impl Fold {
    /// Writes the rows, and what undoes it. `folded` is up to which batch each group was folded so far.
    pub fn write(&self, connection: &Connection, overlay: &Overlay, folded: &[Option<BatchId>]) -> Result<()> {
        let Some(to) = self.to else { return Ok(()) };
        for &group in &self.groups {
            let mut rows: Vec<_> = overlay.group(group).iter().collect();
            rows.sort_unstable_by(|a, b| a.key().cmp(b.key()));
            if self.keeps_undo {
                // Also when nothing changed: the undos of a group are a chain without gaps.
                let step = UndoStep { group, batch: to, before: folded[usize::from(group.0)] };
                undo_table::insert(connection, step, &self.undo(connection, step, &rows)?)?;
            }
            for row in rows {
                state_table::put(connection, group, row.as_delta_row())?;
            }
            fold_table::set(connection, group, to)?;
        }
        Ok(())
    }

    /// The rows that the table has for these keys now.
    fn undo(&self, connection: &Connection, step: UndoStep, rows: &[&Row]) -> Result<Vec<u8>> {
        let mut undo = DeltaBuilder::default();
        if step.before.is_none() {
            // The table has nothing of the group.
            return Ok(undo.finish());
        }
        if rows.len() as u64 * ROWS_OF_A_LOOKUP < self.rows_of_group {
            for row in rows {
                match state_table::get(connection, step.group, row.key())? {
                    Some(old) => undo.push(old.as_delta_row()),
                    None => push_absent(&mut undo, row),
                }
            }
            return Ok(undo.finish());
        }
        let mut rest = rows.iter().peekable();
        state_table::scan(connection, step.group, |old| {
            while let Some(absent) = rest.next_if(|row| row.key() < &*old.key) {
                push_absent(&mut undo, absent);
            }
            if rest.next_if(|row| row.key() == &*old.key).is_some() {
                undo.push(old.as_delta_row());
            }
            Ok(())
        })?;
        rest.for_each(|absent| push_absent(&mut undo, absent));
        Ok(undo.finish())
    }
}

/// The table had no row for this key. A key that came and went since the last fold needs no undo.
fn push_absent(undo: &mut DeltaBuilder, row: &Row) {
    if !row.is_gone() {
        undo.push(DeltaRow { key: row.key(), state: None, timeout: None });
    }
}
