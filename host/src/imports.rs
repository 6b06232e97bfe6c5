//! States and events that are put in from outside. They are files in the data folder, read and planned as events are, so that a
//! crash, a re-run and a restart do to them what they do to events: each has its effect exactly once.

mod edit;
mod purge;
mod row;
mod rows;

pub use edit::{
    Edit, EditDone, add, add_initial, edits, purge, re_drive, re_drive_as, re_drive_waits, remove, set, waits,
};
pub use purge::{LettersToPurge, OUTPUT_REFUSED};
pub use row::{ImportLine, ImportRow, LetterId, RedrivenEvent};

use crate::event::{InputId, OffsetRange, Positions, RecordBatch};
use crate::source::file::RECORD_BYTES_MAX;
use crate::source::{FileOptions, FileSource, ReadLimit, ReadStatus, Source};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The folder of imports below a data folder.
const FOLDER: &str = "imports";
/// How the name of a file ends whose rows are put as they are, without a call of the rule.
const AS_IS: &str = "-as-is.jsonl";

/// The imported states of a data folder, as a source.
pub struct Imports {
    folder: PathBuf,
    /// None before the first import.
    files: Option<FileSource>,
    positions: Positions,
}

impl Imports {
    /// The imported states of a data folder.
    pub fn new(data_folder: &Path) -> Self {
        Imports { folder: data_folder.join(FOLDER), files: None, positions: Positions::new() }
    }

    /// Continues after these positions.
    pub fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.positions = positions.clone();
        self.files = None;
        Ok(())
    }

    /// Adds imported rows to a batch: [`ReadStatus::More`] when there are further ones.
    pub fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        match self.files()? {
            Some(files) => files.read(limit, batch),
            None => Ok(ReadStatus::Caught),
        }
    }

    /// Reads ranges again.
    pub fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        match self.files()? {
            Some(files) => files.replay(ranges, batch),
            None => bail!("the imported states in {} are gone", self.folder.display()),
        }
    }

    fn files(&mut self) -> Result<Option<&mut FileSource>> {
        if self.files.is_none() && self.folder.is_dir() {
            // Followed, so that states can be imported while the rule runs.
            let options = FileOptions {
                input: InputId::IMPORTS,
                follow: true,
                record_bytes_max: RECORD_BYTES_MAX,
                ..FileOptions::default()
            };
            let mut files = FileSource::within(self.folder.clone(), vec![String::new()], options)?;
            files.seek(&self.positions)?;
            self.files = Some(files);
        }
        Ok(self.files.as_mut())
    }
}

/// Whether the rows of this file are put as they are, without a call of the rule.
pub fn is_as_is(file: &str) -> bool {
    file.ends_with(AS_IS)
}
