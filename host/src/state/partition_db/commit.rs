//! [`Commit`]: a batch goes into a partition's file, all of it or nothing.

use super::{META_BATCH, META_ROW_COUNTS, META_ROWS, PartitionDb, Thresholds};
use crate::event::{BatchId, KeyGroup};
use crate::fault;
use crate::group::TimeoutClock;
use crate::imports::LettersToPurge;
use crate::state::delta::{self, DeltaBuilder};
use crate::state::fold::Fold;
use crate::state::overlay::ROW_BYTES;
use crate::state::shipping::{self, Shipped};
use crate::state::{
    DeadLetter, OutputBlock, RowChanges, clean, dead_letter_table, delta_table, meta_table, outbox_table, settings,
};
use anyhow::{Context, Result};

/// All key groups are folded within this many commits, so an overlay holds the changes of at most so many batches.
const ROTATION_COMMITS_MAX: usize = 256;
/// While many of the keys have changed, all groups are folded within this many: waiting would take more memory and save little.
const ROTATION_COMMITS_MIN: usize = 64;
/// Many of the keys: one in so many. A page holds a dozen states of 256 bytes, so a fold writes each page for a few of them.
const KEYS_PER_CHANGED: u64 = 4;

/// What a batch changes in one partition.
pub struct Commit<'a> {
    /// The batch; must follow the last one.
    pub batch: BatchId,
    /// The changed rows.
    pub delta: DeltaBuilder,
    /// By how much the numbers of rows change.
    pub rows_changed: RowChanges,
    /// What the batch puts out.
    pub outputs: &'a OutputBlock,
    /// What failed.
    pub dead_letters: &'a [DeadLetter],
    /// Dead letters of this partition whose events run again in this batch: the batch and the number of each.
    pub re_driven: &'a [(BatchId, u64)],
    /// Dead letters of earlier batches that are deleted.
    pub purges: &'a [LettersToPurge],
    /// Outputs up to this batch are delivered, and leave the outbox.
    pub delivered: Option<BatchId>,
    /// What is not in the checkpoint yet stays, delivered or not.
    pub shipped: Shipped,
    /// The thresholds up to which timeouts were called.
    pub thresholds: Thresholds,
}

impl PartitionDb {
    /// Commits a batch: all of it or nothing. Without space for it, nothing of it is kept and it is tried again.
    pub fn commit(&mut self, commit: Commit<'_>) -> Result<()> {
        self.commit_and_tell(commit, || {})
    }

    /// The same, and tells as soon as the batch is committed: copying the log to the file, which is done now and then, takes long.
    pub fn commit_and_tell(&mut self, mut commit: Commit<'_>, tell: impl FnOnce()) -> Result<()> {
        let has_changes = commit.delta.rows() > 0;
        // Room is made for the rows of this batch before they come, as if all of them were new.
        self.share.set(self.overlay.bytes() + commit.delta.bytes() + commit.delta.rows() as usize * ROW_BYTES);
        self.is_sound = false;
        let delta = std::mem::take(&mut commit.delta).finish();
        let (hold, path) = (self.hold.clone(), self.path.clone());
        fault::point("commit-begin");
        hold.write(&path, || self.try_commit(&commit, has_changes, &delta))?;
        fault::point("committed");
        tell();
        settings::checkpoint_when_long(&self.connection, &path)
    }

    fn try_commit(&mut self, commit: &Commit<'_>, has_changes: bool, delta: &[u8]) -> Result<()> {
        let batch = commit.batch;
        assert!(
            self.committed.is_none_or(|last| last < batch),
            "batch {batch} cannot be committed after batch {:?}",
            self.committed
        );
        let rows = self.rows.saturating_add_signed(commit.rows_changed.total());
        let counts = self.counts.clone().changed(&commit.rows_changed);
        let fold = self.next_fold(batch);

        let transaction = self.connection.transaction().context("failed to begin the batch's transaction")?;
        fold.write(&transaction, &self.overlay, &self.folded)?;
        shipping::begin(&transaction, batch)?;
        let history = self.history.advance(&transaction, batch, &fold, &self.key_groups, commit.shipped)?;
        fault::point("commit-fold");
        if has_changes {
            delta_table::insert(&transaction, batch, rows, delta)?;
        }
        fault::point("commit-delta");
        if commit.outputs.outputs > 0 {
            outbox_table::insert(&transaction, batch, commit.outputs)?;
        }
        if let Some(needless) = commit.shipped.limit(commit.delivered) {
            outbox_table::delete_to(&transaction, needless)?;
            shipping::note_deleted(&transaction, needless)?;
        }
        fault::point("commit-outbox");
        for which in commit.purges {
            dead_letter_table::purge(&transaction, batch, which)?;
        }
        dead_letter_table::insert(&transaction, batch, commit.dead_letters)?;
        for &letter in commit.re_driven {
            dead_letter_table::mark_re_driven(&transaction, letter, batch)?;
        }
        meta_table::set(&transaction, META_BATCH, batch.0)?;
        meta_table::set(&transaction, META_ROWS, rows)?;
        meta_table::set(&transaction, META_ROW_COUNTS, counts.to_text()?)?;
        clean::clear(&transaction)?;
        fault::point("commit-end");
        transaction.commit().with_context(|| format!("failed to commit batch {batch}"))?;

        self.history = history;
        self.after_commit(&fold.groups);
        self.apply(delta, &commit.thresholds)?;
        self.share.set(self.overlay.bytes());
        self.committed = Some(batch);
        self.rows = rows;
        self.counts = counts;
        self.is_sound = true;
        Ok(())
    }

    /// What the commit of this batch folds.
    fn next_fold(&self, batch: BatchId) -> Fold {
        let oldest = self.history.oldest_after(batch);
        Fold {
            groups: if self.committed.is_some() { self.groups_to_fold() } else { Vec::new() },
            to: self.committed,
            keeps_undo: self.committed.is_some_and(|last| oldest < last),
            rows_of_group: self.rows / self.key_groups.len() as u64,
        }
    }

    /// Which key groups are folded next: a slice in rotation, more when all partitions together take too much memory.
    fn groups_to_fold(&self) -> Vec<KeyGroup> {
        let are_few = self.overlay.count() as u64 * KEYS_PER_CHANGED < self.rows;
        let slice = self.key_groups.len().div_ceil(if are_few { ROTATION_COMMITS_MAX } else { ROTATION_COMMITS_MIN });
        let excess = self.share.excess();
        let (before, from) = self.key_groups.split_at(self.fold_next);
        let mut freed = 0;
        let mut groups = Vec::new();
        for &group in from.iter().chain(before) {
            if groups.len() >= slice && freed >= excess {
                break;
            }
            freed += self.overlay.group_bytes(group);
            groups.push(group);
        }
        groups
    }

    /// The folded groups are in the table now, up to the batch before this commit.
    fn after_commit(&mut self, groups: &[KeyGroup]) {
        let Some(last) = self.committed else { return };
        for &group in groups {
            self.folded[usize::from(group.0)] = Some(last);
            for row in self.overlay.take_group(group) {
                if let Some(timeout) = row.timeout {
                    let floor = &mut self.due_floor[timeout.clock as usize - 1];
                    *floor = (*floor).min(timeout.at);
                }
            }
        }
        self.fold_next = (self.fold_next + groups.len()) % self.key_groups.len();
    }

    fn apply(&mut self, delta: &[u8], thresholds: &Thresholds) -> Result<()> {
        for (clock, threshold) in [
            (TimeoutClock::ProcessingTime, thresholds.processing_time),
            (TimeoutClock::EventTime, thresholds.event_time),
        ] {
            if let Some(threshold) = threshold {
                self.due_floor[clock as usize - 1] = threshold;
            }
        }
        let mut rows = Vec::new();
        delta::read(delta, |row| {
            rows.push(row);
            Ok(())
        })?;
        self.overlay.apply_all(&rows);
        self.overlay.settle();
        Ok(())
    }
}
