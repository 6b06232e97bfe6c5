//! [`Fold`]: the changed rows of some key groups go from the overlay into the table.

use super::delta::{DeltaBuilder, DeltaRow};
use super::overlay::{Overlay, Row};
use super::undo_table::{self, UndoStep};
use super::{fold_table, state_table};
use crate::event::{BatchId, KeyGroup};
use anyhow::Result;
use rusqlite::Connection;

/// What one commit folds.
pub(super) struct Fold {
    /// The key groups.
    pub groups: Vec<KeyGroup>,
    /// Up to this batch; none before the first commit, when there is nothing to fold.
    pub to: Option<BatchId>,
    /// Whether a batch before it can be read, and needs the rows as they were.
    pub keeps_undo: bool,
}

impl Fold {
    /// Writes the rows, and what undoes it. `folded` is up to which batch each group was folded so far.
    pub fn write(&self, connection: &Connection, overlay: &Overlay, folded: &[Option<BatchId>]) -> Result<()> {
        let Some(to) = self.to else { return Ok(()) };
        for &group in &self.groups {
            let before = folded[usize::from(group.0)];
            let mut rows: Vec<_> = overlay.group(group).iter().collect();
            rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            let mut undo = DeltaBuilder::default();
            for row in rows {
                // Where nothing was folded before, the table has no rows.
                if self.keeps_undo && before.is_some() {
                    remember(connection, group, row, &mut undo)?;
                }
                state_table::put(connection, group, row)?;
            }
            if self.keeps_undo {
                // Also when nothing changed: the undos of a group are a chain without gaps.
                undo_table::insert(connection, UndoStep { group, batch: to, before }, &undo.finish())?;
            }
            fold_table::set(connection, group, to)?;
        }
        Ok(())
    }
}

/// Adds the row that the table has for a key, before another takes its place.
fn remember(connection: &Connection, group: KeyGroup, new: &Row, undo: &mut DeltaBuilder) -> Result<()> {
    match state_table::get(connection, group, &new.key)? {
        Some(old) => undo.push(old.as_delta_row()),
        None if new.is_gone() => {}
        None => undo.push(DeltaRow { key: &new.key, state: None, timeout: None }),
    }
    Ok(())
}
