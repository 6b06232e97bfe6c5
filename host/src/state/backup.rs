//! [`FolderSnapshot`]: all SQLite files of a data folder as of one moment, also while a host writes them, and copies of them.

use super::partition_db::{META_BATCH, path_of};
use super::{meta_table, settings};
use crate::event::{BatchId, PartitionId};
use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::path::{Path, PathBuf};

/// Copied at once, so that progress can be shown.
const PAGES: i32 = 4096;
/// A host may commit between the moments in which two files are opened; only one that is a hundred batches faster than we open
/// files makes this fail.
const ATTEMPTS: u32 = 5;

/// The files of a data folder, each held as it was at one moment. While this lives, the host's logs grow instead of being
/// started anew.
pub struct FolderSnapshot {
    partitions: Vec<HeldFile>,
    plan_log: HeldFile,
    committed: Vec<Option<BatchId>>,
}

struct HeldFile {
    name: PathBuf,
    connection: Connection,
}

impl FolderSnapshot {
    /// Holds on to the files of a folder with so many partitions.
    ///
    /// The plan log comes last: what it knows to be planned and delivered is then at least what the partitions rely on. A
    /// partition that is behind it runs planned batches again, as after a crash.
    pub fn open(folder: &Path, partitions: u32) -> Result<Self> {
        let mut attempt = Self::open_once(folder, partitions)?;
        for _ in 1..ATTEMPTS {
            if attempt.has_plans()? {
                break;
            }
            attempt = Self::open_once(folder, partitions)?;
        }
        ensure!(
            attempt.has_plans()?,
            "plans that the partitions of {} need are missing: run the rule once, and try again",
            folder.display()
        );
        Ok(attempt)
    }

    /// The last committed batch of each partition.
    pub fn committed(&self) -> &[Option<BatchId>] {
        &self.committed
    }

    /// Copies all files to a folder that has none of them, and syncs them. Calls `each` with the bytes that were copied and
    /// those of all files.
    pub fn copy(&self, to: &Path, mut each: impl FnMut(u64, u64)) -> Result<u64> {
        let files = || self.partitions.iter().chain([&self.plan_log]);
        let total = files().map(HeldFile::bytes).sum::<Result<u64>>()?;
        let mut before = 0;
        for file in files() {
            file.copy(to, |bytes| each(before + bytes, total))
                .with_context(|| format!("failed to copy {}", file.name.display()))?;
            before += file.bytes()?;
        }
        Ok(total)
    }

    fn open_once(folder: &Path, partitions: u32) -> Result<Self> {
        let paths = (0..partitions).map(|partition| path_of(folder, PartitionId(partition)));
        let partitions = paths.map(|path| HeldFile::open(&path)).collect::<Result<Vec<_>>>()?;
        let plan_log = HeldFile::open(&folder.join("plan.db"))?;
        let committed = |file: &HeldFile| -> Result<Option<BatchId>> {
            Ok(meta_table::get(&file.connection, META_BATCH)?.map(BatchId))
        };
        Ok(FolderSnapshot { committed: partitions.iter().map(committed).collect::<Result<_>>()?, partitions, plan_log })
    }

    /// Whether the plan log has what every partition runs next, and what any has run.
    fn has_plans(&self) -> Result<bool> {
        let next = |committed: &Option<BatchId>| committed.map_or(0, |batch| batch.0 + 1);
        let (Some(first), Some(end)) = (self.committed.iter().map(next).min(), self.committed.iter().map(next).max())
        else {
            return Ok(true);
        };
        let planned: u64 = self.plan_log.connection.query_row(
            "SELECT COUNT(*) FROM plan WHERE batch >= ?1 AND batch < ?2",
            [first, end],
            |row| row.get(0),
        )?;
        Ok(planned == end - first)
    }
}

impl HeldFile {
    fn open(path: &Path) -> Result<Self> {
        let connection = settings::open_read_only(path)?
            .with_context(|| format!("{} is empty: run the rule once first", path.display()))?;
        connection.execute_batch("BEGIN")?;
        // A transaction begins to see with its first read.
        connection.query_row("SELECT COUNT(*) FROM meta", [], |_| Ok(()))?;
        let name = path.file_name().map(PathBuf::from).with_context(|| format!("{} has no name", path.display()))?;
        Ok(HeldFile { name, connection })
    }

    fn bytes(&self) -> Result<u64> {
        let number = |pragma: &str| self.connection.query_row(pragma, [], |row| row.get::<_, u64>(0));
        Ok(number("PRAGMA page_count")? * number("PRAGMA page_size")?)
    }

    fn copy(&self, folder: &Path, mut each: impl FnMut(u64)) -> Result<()> {
        let path = folder.join(&self.name);
        ensure!(!path.exists(), "{} is there already", path.display());
        let mut copy = Connection::open(&path)?;
        copy.execute_batch("PRAGMA synchronous = OFF")?;
        let page_bytes: u64 = self.connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        {
            let backup = Backup::new(&self.connection, &mut copy)?;
            loop {
                let step = backup.step(PAGES)?;
                let progress = backup.progress();
                each((progress.pagecount - progress.remaining) as u64 * page_bytes);
                match step {
                    StepResult::Done => break,
                    StepResult::More => {}
                    step => anyhow::bail!("the file is {step:?}"),
                }
            }
        }
        settings::end_unsynced(copy, &path)
    }
}
