//! [`FilesSink`]: one file of JSON lines for each batch that has outputs.
//!
//! A file appears whole, by renaming, and its name is the batch. So a reader never sees half a batch, and a batch that is
//! delivered again finds its file and leaves it.

use super::{Sink, SinkError};
use crate::event::BatchId;
use crate::fault;
use crate::state::OutputBlock;
use crate::synced;
use anyhow::{Context, Result, anyhow, bail};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
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
    fn deliver(&mut self, batch: BatchId, blocks: &[OutputBlock]) -> Result<(), SinkError> {
        if blocks.iter().all(|block| block.outputs == 0) {
            return Ok(());
        }
        let path = self.folder.join(format!("batch-{:010}.jsonl", batch.0));
        match fs::read(&path) {
            Ok(found) => return Ok(check_same(&path, &found, blocks)?),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path, error)),
        }
        // A leading dot hides the file from readers of the folder until it is whole.
        let unfinished = self.folder.join(format!(".batch-{:010}.jsonl.unfinished", batch.0));
        let write = || -> io::Result<()> {
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
        write().or_else(|error| {
            // The host that this one has replaced may be at the same batch, and gives its file the same name.
            if error.kind() == ErrorKind::NotFound
                && let Ok(found) = fs::read(&path)
            {
                return Ok(check_same(&path, &found, blocks)?);
            }
            // What was written so far takes room that others may need. It may not even be there.
            let _ = fs::remove_file(&unfinished);
            Err(failed(&path, error))
        })
    }

    fn description(&self) -> String {
        format!("files[{}]", self.folder.display())
    }
}

/// A full disk has room again when somebody makes some; any other error is one that waiting does not mend.
fn failed(path: &Path, error: io::Error) -> SinkError {
    let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let error = anyhow!(error).context(format!("failed to write {}", path.display()));
    if is_full { SinkError::Unavailable(error.into()) } else { SinkError::Broken(error) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_waited_for_and_another_failure_is_not() {
        for (kind, waits) in [
            (ErrorKind::StorageFull, true),
            (ErrorKind::QuotaExceeded, true),
            (ErrorKind::PermissionDenied, false),
            (ErrorKind::Other, false),
        ] {
            let error = failed(Path::new("output/batch-0000000001.jsonl"), kind.into());
            assert_eq!(matches!(error, SinkError::Unavailable(_)), waits, "{error:?}");
        }
    }

    #[test]
    fn a_file_with_other_outputs_is_left_and_ends_the_run() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut sink = FilesSink::open(folder.path()).expect("it can be written");
        let block = |text: &str| [OutputBlock { outputs: 1, lines: format!("{text}\n").into_bytes() }];
        for _ in 0..2 {
            sink.deliver(BatchId(7), &block("1")).expect("the same batch may come again");
        }
        let error = sink.deliver(BatchId(7), &block("2")).expect_err("the file is there");
        assert!(matches!(error, SinkError::Broken(_)), "{error:?}");
        assert_eq!(fs::read(folder.path().join("batch-0000000007.jsonl")).expect("it is there"), b"1\n");
    }
}
