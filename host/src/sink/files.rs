//! [`FilesSink`]: one file of JSON lines for each batch that has outputs.
//!
//! A file appears whole, by renaming, and its name is the batch. So a reader never sees half a batch, and a batch that is
//! delivered again finds its file and leaves it.

use super::Sink;
use crate::event::BatchId;
use crate::fault;
use crate::state::OutputBlock;
use crate::synced;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A folder with one file for each batch that has outputs.
pub struct FilesSink {
    folder: PathBuf,
}

impl FilesSink {
    /// Makes the folder when it is not there.
    pub fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("failed to make the output folder {}", folder.display()))?;
        Ok(FilesSink { folder: folder.to_owned() })
    }
}

impl Sink for FilesSink {
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<()> {
        if blocks.iter().all(|block| block.outputs == 0) {
            return Ok(());
        }
        let path = self.folder.join(format!("batch-{:010}.jsonl", batch.0));
        let attempt = || format!("failed to write {}", path.display());
        match fs::read(&path) {
            Ok(found) => return check_same(&path, &found, blocks),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(attempt),
        }
        // A leading dot hides the file from readers of the folder until it is whole.
        let unfinished = self.folder.join(format!(".batch-{:010}.jsonl.unfinished", batch.0));
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&unfinished)?;
            for block in blocks {
                file.write_all(&block.lines)?;
            }
            synced::file(&file, &unfinished);
            fault::point("output-written");
            fs::rename(&unfinished, &path)?;
            fault::point("output-placed");
            // The rename itself must survive a power cut before the outputs leave the outbox.
            synced::folder(&self.folder)
        };
        write().with_context(attempt)
    }

    fn description(&self) -> String {
        format!("files[{}]", self.folder.display())
    }
}

fn check_same(path: &Path, found: &[u8], blocks: &[OutputBlock]) -> Result<()> {
    let mut rest = found;
    for block in blocks {
        match rest.strip_prefix(block.lines.as_slice()) {
            Some(after) => rest = after,
            None => bail!(different(path)),
        }
    }
    if rest.is_empty() { Ok(()) } else { bail!(different(path)) }
}

fn different(path: &Path) -> String {
    format!(
        "{} is there already and holds something else: the output folder belongs to another data folder, or the file was \
         changed; use a new folder with --output",
        path.display()
    )
}
