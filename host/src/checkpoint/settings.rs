//! [`CheckpointSettings`]: where a checkpoint lies and how it is kept.

use super::store::CheckpointStore;
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;

/// A snapshot of each partition in so many batches: a restore then reads at most so many deltas after it.
pub const SNAPSHOT_BATCHES_DEFAULT: u64 = 100;
/// Snapshots of each partition that are kept: when the newest one is damaged there is another.
pub const CHECKPOINTS_RETAINED_DEFAULT: usize = 2;
/// Batches that may wait for the checkpoint before the source is held back.
pub const CHECKPOINT_LAG_BATCHES_DEFAULT: u64 = 100;

/// When outputs may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseMode {
    /// When all partitions have committed their batch: soonest. What the world has seen may be missing in the checkpoint.
    #[default]
    AfterCommit,
    /// When their batch is in the checkpoint: whoever goes on from it is never behind what the world has seen.
    AfterCheckpoint,
}

/// Where a checkpoint lies and how it is kept.
#[derive(Clone)]
pub struct CheckpointSettings {
    /// Where.
    pub store: Arc<CheckpointStore>,
    /// When outputs may leave.
    pub release: ReleaseMode,
    /// A snapshot of each partition in so many batches.
    pub snapshot_batches: u64,
    /// So many snapshots of each partition are kept, and everything after them.
    pub retained: usize,
    /// When more batches than this wait, the source is held back.
    pub lag_batches: u64,
}

impl fmt::Debug for CheckpointSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckpointSettings { store, release, snapshot_batches, retained, lag_batches } = self;
        write!(f, "{} {release:?} {snapshot_batches} {retained} {lag_batches}", store.url())
    }
}

impl CheckpointSettings {
    /// A checkpoint with the defaults.
    pub fn new(store: Arc<CheckpointStore>) -> Self {
        CheckpointSettings {
            store,
            release: ReleaseMode::default(),
            snapshot_batches: SNAPSHOT_BATCHES_DEFAULT,
            retained: CHECKPOINTS_RETAINED_DEFAULT,
            lag_batches: CHECKPOINT_LAG_BATCHES_DEFAULT,
        }
    }
}
