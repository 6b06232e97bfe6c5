//! [`PartitionDb`]: one partition's file. State is read here, and a batch is committed here, in one transaction.
//!
//! Writing each changed state to its row would cost a page of WAL for each. So a commit writes the changed rows as one delta
//! and keeps them in an overlay in memory; reads look there first. In rotation, each commit also folds a slice of the key
//! groups from the overlay into the table. Opening the file reads the deltas that are not folded into the overlay. What is kept
//! longer, so that earlier batches can be read, is in `history.rs`.

mod commit;

use super::budget::{Budget, BudgetShare};
use super::history::History;
use super::overlay::Overlay;
use super::row_counts::RowCounts;
use super::state_table::KeyRow;
use super::view::View;
use super::{
    Hold, OutputBlock, clean, dead_letter_table, delta_table, fold_table, hold, meta_table, outbox_table, settings,
    state_table, undo_table,
};
use crate::event::{BatchId, KEY_GROUPS, KeyGroup, Millis, PartitionId};
use crate::fault;
use crate::generation::Mark;
use crate::group::{Timeout, TimeoutClock};
use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use commit::Commit;

pub(super) const META_PARTITION: &str = "partition";
pub(super) const META_PARTITIONS: &str = "partitions";
pub(super) const META_BATCH: &str = "batch";
pub(super) const META_ROWS: &str = "rows";
pub(super) const META_ROW_COUNTS: &str = "row_counts";

/// The tables of a partition's file.
pub(super) const SCHEMA: &[&str] = &[
    meta_table::SCHEMA,
    state_table::SCHEMA,
    delta_table::SCHEMA,
    fold_table::SCHEMA,
    undo_table::SCHEMA,
    outbox_table::SCHEMA,
    dead_letter_table::SCHEMA,
];

/// One partition's file, held by the thread that owns the partition.
pub struct PartitionDb {
    connection: Connection,
    path: PathBuf,
    /// What is done when the disk is full.
    hold: Hold,
    overlay: Overlay,
    /// Up to which batch each key group is folded.
    folded: Vec<Option<BatchId>>,
    /// The key groups of this partition.
    key_groups: Vec<KeyGroup>,
    /// Which of them is folded next.
    fold_next: usize,
    history: History,
    committed: Option<BatchId>,
    rows: u64,
    /// The rows by generation and schema.
    counts: RowCounts,
    /// Timeouts in the table before this time are out of date, for each clock: whatever was due was called since, and its
    /// row is in the overlay.
    due_floor: [Millis; 2],
    /// What the overlay takes of the memory that all partitions share.
    share: BudgetShare,
    /// Whether all commits went well, so that the file may be marked as closed in order.
    is_sound: bool,
}

/// A key's row as a batch finds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Its generation, and the schema of the state.
    pub mark: Mark,
    /// The timeout.
    pub timeout: Option<Timeout>,
}

/// Timeouts before these are due, each on its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Processing time; none when the rule sets no such timeouts.
    pub processing_time: Option<Millis>,
    /// The watermark; none when the rule sets no such timeouts.
    pub event_time: Option<Millis>,
}

impl Thresholds {
    /// Whether a timeout is due: strictly before its clock's threshold.
    pub fn is_due(&self, timeout: Timeout) -> bool {
        let threshold = match timeout.clock {
            TimeoutClock::ProcessingTime => self.processing_time,
            TimeoutClock::EventTime => self.event_time,
        };
        threshold.is_some_and(|threshold| timeout.at < threshold)
    }
}

/// The path of a partition's file in a data folder.
pub fn path_of(folder: &Path, partition: PartitionId) -> PathBuf {
    folder.join(format!("partition-{:04}.db", partition.0))
}

/// The key groups that a partition owns.
pub fn key_groups_of(partition: PartitionId, partitions: u32) -> Vec<KeyGroup> {
    (0..KEY_GROUPS as u16).map(KeyGroup).filter(|group| group.partition(partitions) == partition).collect()
}

impl PartitionDb {
    /// Opens or makes the file of a partition. So many batches before the last one can be read. A file that was not closed in
    /// order is checked first.
    pub fn open(
        folder: &Path,
        partition: PartitionId,
        partitions: u32,
        history_batches: u64,
        budget: &Budget,
    ) -> Result<Self> {
        let path = path_of(folder, partition);
        let mut connection = settings::open(&path, SCHEMA)?;
        fault::point("partition-made");
        let found = (meta_table::get(&connection, META_PARTITION)?, meta_table::get(&connection, META_PARTITIONS)?);
        match found {
            (None, None) => {
                // Both or neither: after a crash between the two, the file would look like that of another partition.
                let transaction = connection.transaction()?;
                meta_table::set(&transaction, META_PARTITION, partition.0)?;
                meta_table::set(&transaction, META_PARTITIONS, partitions)?;
                transaction
                    .commit()
                    .with_context(|| format!("failed to mark {}", path.display()))
                    .map_err(|error| hold::ended_by_sync(&path, error))?;
            }
            found => ensure!(
                found == (Some(partition.0), Some(partitions)),
                "{} is partition {} of {}, not {partition} of {partitions}",
                path.display(),
                found.0.unwrap_or(u32::MAX),
                found.1.unwrap_or(0),
            ),
        }
        let attempt = || format!("failed to read {}", path.display());
        let folded = fold_table::read(&connection)?;
        let history = History::read(&connection, &folded, history_batches).with_context(attempt)?;
        let key_groups = key_groups_of(partition, partitions);
        let committed = meta_table::get(&connection, META_BATCH)?.map(BatchId);
        let view = committed.map(|last| View::of(&connection, &key_groups, last).with_context(attempt)).transpose()?;
        let counts = match (meta_table::get::<String>(&connection, META_ROW_COUNTS)?, &view) {
            (Some(text), _) => RowCounts::from_text(&text).with_context(attempt)?,
            // An earlier host has written the file, which did not count.
            (None, Some(view)) => count_rows(&connection, view, &key_groups).with_context(attempt)?,
            (None, None) => RowCounts::default(),
        };
        let overlay = view.map_or_else(Overlay::default, View::into_overlay);
        // The rotation goes on where it stopped: a rule that runs for a few batches at a time must fold all groups, too.
        let fold_of = |&number: &usize| folded[usize::from(key_groups[number].0)];
        let fold_next = (0..key_groups.len()).min_by_key(fold_of).unwrap_or(0);
        let mut share = budget.share();
        share.set(overlay.bytes());
        Ok(PartitionDb {
            share,
            is_sound: true,
            overlay,
            folded,
            key_groups,
            fold_next,
            history,
            committed,
            rows: meta_table::get(&connection, META_ROWS)?.unwrap_or(0),
            counts,
            due_floor: [Millis(i64::MIN); 2],
            connection,
            path,
            hold: Hold::default(),
        })
    }

    /// Waits like this when the disk is full.
    pub fn hold_with(&mut self, hold: Hold) {
        self.hold = hold;
    }

    /// The last batch that was committed.
    pub fn committed(&self) -> Option<BatchId> {
        self.committed
    }

    /// Keys that have state or a timeout.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The same by generation and schema.
    pub fn counts(&self) -> &RowCounts {
        &self.counts
    }

    /// The rows of a key group, in the order of keys; none when the group is another partition's.
    pub fn rows_of_group(&self, group: KeyGroup) -> Result<Vec<KeyRow>> {
        let mut rows = BTreeMap::new();
        if self.folded[usize::from(group.0)].is_some() {
            state_table::scan(&self.connection, group, |row| {
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
        Ok(rows.into_values().collect())
    }

    /// Bytes that the changed rows take in memory.
    pub fn overlay_bytes(&self) -> usize {
        self.overlay.bytes()
    }

    /// Brings the rows of these keys near, which are loaded next.
    pub fn touch(&self, hashes: impl Iterator<Item = u64>) {
        self.overlay.touch(hashes);
    }

    /// Appends the state of a key to `states` and returns the rest of its row; none when the key has no row.
    pub fn load(&self, hash: u64, key: &[u8], states: &mut Vec<u8>) -> Result<Option<Loaded>> {
        if let Some(row) = self.overlay.get(hash, key) {
            let state = row.state();
            states.extend_from_slice(state.map_or(&[], |(state, _)| state));
            let mark = Mark::of(state.map(|(_, number)| number));
            return Ok((!row.is_gone()).then_some(Loaded { mark, timeout: row.timeout }));
        }
        let group = KeyGroup::of_hash(hash);
        if self.folded[usize::from(group.0)].is_none() {
            return Ok(None);
        }
        let Some(row) = state_table::get(&self.connection, group, key)? else { return Ok(None) };
        if let Some((state, _)) = &row.state {
            states.extend_from_slice(state);
        }
        Ok(Some(Loaded { mark: row.mark(), timeout: row.timeout }))
    }

    /// The keys whose timeout is due on this clock, in the order of due time.
    pub fn due(&mut self, clock: TimeoutClock, threshold: Millis) -> Result<Vec<Vec<u8>>> {
        let mut due: Vec<(Millis, Vec<u8>)> = self
            .overlay
            .due(clock, threshold)
            .into_iter()
            .filter_map(|row| row.timeout.map(|timeout| (timeout.at, row.key().to_vec())))
            .collect();
        let floor = self.due_floor[clock as usize - 1];
        state_table::due(&self.connection, clock, floor, threshold, |key, at| {
            if self.overlay.get(xxhash_rust::xxh3::xxh3_64(key), key).is_none() {
                due.push((at, key.to_vec()));
            }
            true
        })?;
        due.sort_unstable();
        Ok(due.into_iter().map(|(_, key)| key).collect())
    }

    /// The earliest timeout on this clock.
    pub fn next_due(&mut self, clock: TimeoutClock) -> Result<Option<Millis>> {
        let mut next = self.overlay.next_due(clock);
        let floor = self.due_floor[clock as usize - 1];
        state_table::due(&self.connection, clock, floor, next.unwrap_or(Millis(i64::MAX)), |key, at| {
            let holds = self.overlay.get(xxhash_rust::xxh3::xxh3_64(key), key).is_none();
            if holds {
                next = Some(at);
            }
            !holds
        })?;
        Ok(next)
    }

    /// The outputs that a committed batch put out, while they are not delivered.
    pub fn outputs_of(&self, batch: BatchId) -> Result<OutputBlock> {
        Ok(outbox_table::get(&self.connection, batch)?.unwrap_or_default())
    }
}

fn count_rows(connection: &Connection, view: &View, groups: &[KeyGroup]) -> Result<RowCounts> {
    let mut counts = RowCounts::default();
    for &group in groups {
        view.scan(connection, group, |row| {
            counts.add(row.mark());
            Ok(())
        })?;
    }
    Ok(counts)
}

impl Drop for PartitionDb {
    fn drop(&mut self) {
        if self.is_sound {
            clean::close(&self.connection, &self.path);
        }
    }
}
