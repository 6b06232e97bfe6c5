//! [`States`]: the rows of a partition that has all keys, committed batch by batch.

use crate::Medium;
use anyhow::Result;
use keyfold::event::{BatchId, PartitionId};
use keyfold::generation::Mark;
use keyfold::state::delta::DeltaRow;
use keyfold::state::partition_db::Thresholds;
use keyfold::state::{Budget, Commit, DeltaBuilder, OutputBlock, PartitionDb, RowChanges, Shipped};
use tempfile::TempDir;

static NO_OUTPUTS: OutputBlock = OutputBlock { outputs: 0, lines: Vec::new() };

/// The rows of a partition. The first batch has all keys that there will be.
pub struct States {
    /// The partition's file.
    pub db: PartitionDb,
    next: u64,
    _folder: TempDir,
}

impl States {
    /// None yet.
    pub fn new(medium: Medium, budget: &Budget) -> Result<Self> {
        let folder = medium.folder()?;
        let db = PartitionDb::open(folder.path(), PartitionId(0), 1, 0, budget)?;
        Ok(States { db, next: 0, _folder: folder })
    }

    /// The same, with these rows, all of them in the table.
    pub fn folded<'r>(rows: impl IntoIterator<Item = DeltaRow<'r>>) -> Result<Self> {
        // Without room in memory, each commit folds all that the one before it has brought.
        let mut states = States::new(Medium::Memory, &Budget::new(0))?;
        states.commit(rows)?;
        states.commit([])?;
        assert_eq!(states.db.overlay_bytes(), 0, "rows are left in memory");
        Ok(states)
    }

    /// Commits a batch that changes these rows.
    pub fn commit<'r>(&mut self, rows: impl IntoIterator<Item = DeltaRow<'r>>) -> Result<()> {
        let (mut delta, mut rows_changed) = (DeltaBuilder::default(), RowChanges::default());
        let are_new = self.db.rows() == 0;
        for row in rows {
            let mark = Mark::of(row.state.map(|(_, number)| number));
            rows_changed.replace((!are_new).then_some(mark), Some(mark));
            delta.push(row);
        }
        let batch = BatchId(self.next);
        self.next += 1;
        self.db.commit(commit(batch, delta, rows_changed, &NO_OUTPUTS))
    }
}

/// The commit of a batch in which nothing fails.
pub fn commit(batch: BatchId, delta: DeltaBuilder, rows_changed: RowChanges, outputs: &OutputBlock) -> Commit<'_> {
    Commit {
        batch,
        delta,
        rows_changed,
        outputs,
        dead_letters: &[],
        delivered: batch.0.checked_sub(2).map(BatchId),
        re_driven: &[],
        purges: &[],
        shipped: Shipped::NoCheckpoint,
        thresholds: Thresholds { processing_time: None, event_time: None },
    }
}
