//! Standard input as a source. It cannot be read twice, so it is copied to files that can.

use super::file::{FileOptions, FileSource};
use super::{ReadLimit, ReadStatus, Source, SourceStatus};
use crate::event::{OffsetRange, Positions, RecordBatch};
use crate::synced;
use anyhow::{Context, Result, ensure};
use memchr::memchr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

/// The folder below the data folder.
const FOLDER: &str = "stdin";

/// A file that is longer than this ends with its current line, so that old input can be deleted in parts.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How much is taken from the input at once.
const BLOCK_BYTES: usize = 128 * 1024;

/// How many blocks wait between the thread that reads the input and the source. When they are full, the input waits.
const BLOCKS_MAX: usize = 128;

/// Copies its input to `<data folder>/stdin/NNNNNN.jsonl` and reads it from there.
///
/// What is given out has been synced, file and folder, so that a planned batch can be read again after a crash. Every run
/// begins a new file behind those of earlier runs, whose rest is read first. Nothing is copied that is not about to be
/// read, so that a slow rule slows the writer and does not fill the disk. The thread that reads the input ends with the
/// input, and not before: a blocked read cannot be interrupted.
pub struct StdinSpool {
    files: FileSource,
    input: Receiver<io::Result<Vec<u8>>>,
    has_ended: bool,
    has_failed: bool,
    folder: PathBuf,
    next_number: u64,
    file: Option<SpoolFile>,
    file_bytes_max: u64,
}

struct SpoolFile {
    file: File,
    bytes: u64,
    ends_line: bool,
    is_synced: bool,
}

impl StdinSpool {
    /// Starts to read `input`. `options.follow` does not matter: the input ends when it ends.
    pub fn new(data_folder: &Path, input: impl Read + Send + 'static, options: FileOptions) -> Result<Self> {
        let folder = data_folder.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        sync_folder(data_folder)?;
        let last_number = last_number(&folder)?;
        if let Some(number) = last_number {
            end_last_line(&file_path(&folder, number))?;
        }
        let options = FileOptions { follow: true, ..options };
        Ok(StdinSpool {
            files: FileSource::within(data_folder.to_owned(), vec![FOLDER.to_owned()], options)?,
            input: start_reading(input)?,
            has_ended: false,
            has_failed: false,
            folder,
            next_number: last_number.map_or(0, |number| number + 1),
            file: None,
            file_bytes_max: FILE_BYTES_MAX,
        })
    }

    /// Copies what the input has at this moment, about as much as one batch takes, and syncs it. Says whether that was
    /// anything.
    fn copy(&mut self, bytes_max: usize) -> Result<bool> {
        // What was taken from the input but not written cannot be had again, so going on would leave a gap.
        ensure!(!self.has_failed, "copying standard input has failed before; start again with the input");
        self.has_failed = true;
        let mut copied = 0;
        while copied < bytes_max && !self.has_ended {
            match self.input.try_recv() {
                Ok(block) => {
                    let block = block.context("cannot read standard input")?;
                    copied += block.len();
                    self.write(&block).with_context(|| format!("cannot write to {}", self.folder.display()))?;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.has_ended = true;
                    if self.file.as_ref().is_some_and(|file| !file.ends_line) {
                        self.write(b"\n").with_context(|| format!("cannot write to {}", self.folder.display()))?;
                    }
                }
            }
        }
        self.sync().with_context(|| format!("cannot sync {}", self.folder.display()))?;
        self.has_failed = false;
        Ok(copied > 0)
    }

    /// Appends a block; a line never spans two files.
    fn write(&mut self, mut block: &[u8]) -> io::Result<()> {
        while !block.is_empty() {
            let file = match &mut self.file {
                Some(file) if file.bytes < self.file_bytes_max || !file.ends_line => file,
                _ => {
                    self.sync()?;
                    let path = file_path(&self.folder, self.next_number);
                    self.next_number += 1;
                    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
                    self.file.insert(SpoolFile { file, bytes: 0, ends_line: true, is_synced: false })
                }
            };
            let room = self.file_bytes_max.saturating_sub(file.bytes).min(block.len() as u64) as usize;
            let end = match room == block.len() {
                true => room,
                false => memchr(b'\n', &block[room.saturating_sub(1)..])
                    .map_or(block.len(), |at| room.saturating_sub(1) + at + 1),
            };
            file.file.write_all(&block[..end])?;
            file.bytes += end as u64;
            file.ends_line = block[end - 1] == b'\n';
            file.is_synced = false;
            block = &block[end..];
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file
            && !file.is_synced
        {
            synced::file(&file.file, &self.folder);
            synced::folder(&self.folder)?;
            file.is_synced = true;
        }
        Ok(())
    }
}

impl Source for StdinSpool {
    fn seek(&mut self, positions: &Positions) -> Result<()> {
        self.files.seek(positions)
    }

    fn read(&mut self, limit: ReadLimit, batch: &mut RecordBatch) -> Result<ReadStatus> {
        // What earlier reads and runs have left comes first; only then is more copied.
        let has_rest = self.files.has_ready();
        let has_copied = !has_rest && self.copy(limit.bytes_max)?;
        match self.files.read(limit, batch)? {
            ReadStatus::Caught if self.has_ended => Ok(ReadStatus::Ended),
            ReadStatus::Caught if has_rest || has_copied => Ok(ReadStatus::More),
            status => Ok(status),
        }
    }

    fn replay(&mut self, ranges: &[OffsetRange], batch: &mut RecordBatch) -> Result<()> {
        self.files.replay(ranges, batch)
    }

    fn status(&self) -> Vec<SourceStatus> {
        vec![SourceStatus { description: "standard input".to_owned(), bytes: None }]
    }
}

/// The number of a file of the spool, by the name that plans have for it; none for other files.
pub fn spool_number(file: &str) -> Option<u64> {
    let digits = file.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(".jsonl")?;
    let is_ours = digits.len() >= 6 && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_ours)
}

/// Lets the files of a new spool have greater numbers than this one, which plans and dead letters name and which is gone.
pub fn begin_after(data_folder: &Path, number: u64) -> Result<()> {
    let folder = data_folder.join(FOLDER);
    let path = file_path(&folder, number);
    let make = || -> io::Result<()> {
        fs::create_dir_all(&folder)?;
        File::create(&path)?.sync_all()
    };
    make().with_context(|| format!("cannot create {}", path.display()))
}

fn start_reading(mut input: impl Read + Send + 'static) -> Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = sync_channel(BLOCKS_MAX);
    let read = move || {
        loop {
            let mut block = vec![0; BLOCK_BYTES];
            let sent = match input.read(&mut block) {
                Ok(0) => return,
                Ok(count) => {
                    block.truncate(count);
                    sender.send(Ok(block))
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
                Err(error) => {
                    // Nobody is left to be told when the source is gone.
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(read)
        .context("cannot start the thread that reads the input")?;
    Ok(receiver)
}

fn file_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}.jsonl"))
}

fn last_number(folder: &Path) -> Result<Option<u64>> {
    let mut last = None;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let name = entry.with_context(|| format!("cannot list {}", folder.display()))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".jsonl")).and_then(|number| number.parse().ok());
        last = last.max(number);
    }
    Ok(last)
}

/// A run that was killed may have left half a line. With a line break it becomes a record, most likely one for the dead
/// letters, instead of waiting for ever.
fn end_last_line(path: &Path) -> Result<()> {
    let end = || -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
        if file.seek(SeekFrom::End(0))? == 0 {
            return Ok(());
        }
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
        // What the killed run wrote but did not sync may be read now, and planned.
        synced::file(&file, path);
        Ok(())
    };
    end().with_context(|| format!("cannot end the last line of {}", path.display()))?;
    path.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> Result<()> {
    synced::folder(folder).with_context(|| format!("cannot sync {}", folder.display()))
}

#[cfg(test)]
mod tests;
