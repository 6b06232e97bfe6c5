//! [`History`]: which earlier batches of a partition can be read, and how much is kept for them.
//!
//! A batch is read from the table: undos lead each key group back to its last fold that the batch has behind it, its *base*,
//! and deltas lead on from there. So an undo is kept as long as a batch before its fold can be read, and a delta as long as
//! it lies after the base of a group for the oldest batch. Every group is folded within 256 commits, so its base lies at most
//! so far before the oldest batch: with a history of H batches there are at most H + 256 deltas.

use super::fold::Fold;
use super::shipping::{self, Shipped};
use super::{delta_table, meta_table, undo_table};
use crate::event::{BatchId, KeyGroup};
use anyhow::Result;
use rusqlite::Connection;

/// The oldest batch that can be read. Readers must not go by what they find: a batch without changes has no delta, so one that
/// was deleted leaves no gap.
const META_OLDEST: &str = "oldest";

/// What is kept for reading earlier batches.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// So many batches before the last one are kept.
    batches: u64,
    /// The oldest batch that can be read; none before the first commit.
    oldest: Option<BatchId>,
    /// The base of each key group for the oldest batch.
    bases: Vec<Option<BatchId>>,
}

impl History {
    /// Reads what a partition's file has kept, to go on with a history of so many batches.
    pub fn read(connection: &Connection, folded: &[Option<BatchId>], batches: u64) -> Result<Self> {
        let ends = undo_table::ends(connection)?;
        let bases = folded.iter().zip(ends).map(|(&fold, end)| end.unwrap_or(fold)).collect();
        Ok(History { batches, oldest: oldest(connection)?, bases })
    }

    /// The oldest batch that can be read once this one is committed. It never goes back: when the history is made longer, what
    /// is gone stays gone.
    pub fn oldest_after(&self, batch: BatchId) -> BatchId {
        let kept = BatchId(batch.0.saturating_sub(self.batches));
        self.oldest.map_or(batch, |oldest| oldest.max(kept))
    }

    /// Deletes what no readable batch needs once `batch` is committed with this fold. Returns the history as it is from then
    /// on.
    pub fn advance(
        &self,
        connection: &Connection,
        batch: BatchId,
        fold: &Fold,
        key_groups: &[KeyGroup],
        shipped: Shipped,
    ) -> Result<Self> {
        let oldest = self.oldest_after(batch);
        let mut bases = self.bases.clone();
        if !fold.keeps_undo {
            // Nothing leads back behind it.
            fold.groups.iter().for_each(|group| bases[usize::from(group.0)] = fold.to);
        }
        undo_table::delete_to(connection, oldest, |group, fold| {
            let base = &mut bases[usize::from(group.0)];
            *base = (*base).max(Some(fold));
        })?;
        let lowest = key_groups.iter().map(|group| bases[usize::from(group.0)]).min().flatten();
        // What the oldest batch itself changed can be read, too.
        let before_oldest = oldest.0.checked_sub(1).map(BatchId);
        if let Some(needless) = shipped.limit(lowest.min(before_oldest)) {
            delta_table::delete_to(connection, needless)?;
            shipping::note_deleted(connection, needless)?;
        }
        if self.oldest != Some(oldest) {
            meta_table::set(connection, META_OLDEST, oldest.0)?;
        }
        Ok(History { batches: self.batches, oldest: Some(oldest), bases })
    }
}

/// A file whose rows were all put in at once, as of this batch: nothing leads back behind it.
pub(super) fn begin_at(connection: &Connection, batch: BatchId) -> Result<()> {
    meta_table::set(connection, META_OLDEST, batch.0)
}

/// The oldest batch that can be read; none before the first commit.
pub(super) fn oldest(connection: &Connection) -> Result<Option<BatchId>> {
    Ok(meta_table::get(connection, META_OLDEST)?.map(BatchId))
}
