//! [`Segment`]: one file of a partition, from its first event to where the next file begins.

use super::EventNumber;
use super::block::{Block, HEADER_BYTES, Header};
use super::segment_header::{PREFIX_BYTES, SegmentHeader};
use crate::fault;
use crate::synced;
use anyhow::{Context, Result, anyhow, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is read of a file at once, and how far apart the places are that are remembered in it.
pub(super) const WINDOW_BYTES: usize = 64 << 10;
const SUFFIX: &str = ".seg";
const UNFINISHED: &str = ".unfinished";

/// One file of a partition.
#[derive(Debug)]
pub(super) struct Segment {
    pub path: PathBuf,
    pub header: SegmentHeader,
    /// Where its first block begins in the file.
    pub first_at: u64,
    extent: Mutex<Extent>,
}

/// How far the file goes, and where some of its blocks are.
#[derive(Debug, Clone, Default)]
struct Extent {
    /// What lies after it is not there for readers.
    bytes: u64,
    /// One of the blocks in each window. None: nobody has looked yet.
    places: Option<Vec<(EventNumber, u64)>>,
}

impl Segment {
    /// Makes the file that begins here. It appears whole.
    pub fn create(folder: &Path, header: SegmentHeader) -> io::Result<Self> {
        let name = format!("{:020}{SUFFIX}", header.start.line);
        let (path, unfinished) = (folder.join(&name), folder.join(name + UNFINISHED));
        let bytes = header.to_bytes();
        let write = || -> io::Result<()> {
            let mut file = File::create(&unfinished)?;
            fault::io("segment-begin")?;
            file.write_all(&bytes)?;
            synced::file(&file, &unfinished);
            fault::point("segment-written");
            fs::rename(&unfinished, &path)?;
            fault::point("segment-placed");
            synced::folder(folder)
        };
        write().inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        let extent = Extent { bytes: bytes.len() as u64, places: Some(Vec::new()) };
        Ok(Segment { path, header, first_at: bytes.len() as u64, extent: Mutex::new(extent) })
    }

    /// Opens a file, whose name says where it begins, as far as its header.
    pub fn open(path: PathBuf, first: EventNumber) -> Result<Self> {
        let attempt = || format!("failed to read {}", path.display());
        let file = File::open(&path).with_context(attempt)?;
        let bytes = file.metadata().with_context(attempt)?.len();
        let mut prefix = [0; PREFIX_BYTES];
        let read = file.read_exact_at(&mut prefix, 0).map_err(anyhow::Error::from);
        let header = read.and_then(|()| {
            let length = SegmentHeader::bytes_of(&prefix)?;
            ensure!(length as u64 <= bytes, "it ends in its header");
            let mut header = vec![0; length];
            file.read_exact_at(&mut header, 0)?;
            Ok((SegmentHeader::read(&header)?, length as u64))
        });
        let (header, first_at) = header.map_err(|error| damaged(&path, 0, error))?;
        let start = header.start.line;
        ensure!(first.0 == start, damaged(&path, 0, anyhow!("it begins with event {start}, its name says {first}")));
        Ok(Segment { path, header, first_at, extent: Mutex::new(Extent { bytes, places: None }) })
    }

    /// The files of a folder, sorted. What was not finished is deleted.
    pub fn list(folder: &Path) -> Result<Vec<(EventNumber, PathBuf)>> {
        let attempt = || format!("failed to look into {}", folder.display());
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).with_context(attempt)? {
            let path = entry.with_context(attempt)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(UNFINISHED) {
                fs::remove_file(&path).with_context(|| format!("failed to delete {}", path.display()))?;
            } else if let Some(first) = name.strip_suffix(SUFFIX).filter(|first| first.len() == 20) {
                let first = first.parse().with_context(|| format!("{} is not named by a number", path.display()))?;
                found.push((EventNumber(first), path));
            }
        }
        found.sort();
        Ok(found)
    }

    pub fn first(&self) -> EventNumber {
        EventNumber(self.header.start.line)
    }

    pub fn bytes(&self) -> u64 {
        self.extent().bytes
    }

    pub fn has_events(&self) -> bool {
        self.bytes() > self.first_at
    }

    /// Opens the file for a commit, which it makes longer.
    pub fn to_write(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(&self.path)
    }

    /// Readers see the file up to here: these blocks were added and synced.
    pub fn grow(&self, bytes: u64, blocks: impl IntoIterator<Item = (EventNumber, u64)>) {
        let mut extent = self.extent();
        extent.bytes = bytes;
        if let Some(places) = &mut extent.places {
            blocks.into_iter().for_each(|(first, at)| remember(places, first, at));
        }
    }

    /// Reads the block that holds an event, and those after it that were read with it.
    pub fn load(&self, number: EventNumber) -> Result<Vec<Block>> {
        let mut scan = Scan::new(self)?;
        let mut at = self.place_before(number, &mut scan)?;
        loop {
            let header = scan.header(at)?.with_context(|| scan.what_is_at(at))?;
            let is_before = header.end().line <= number.0;
            if header.start.line > number.0 {
                return Err(damaged(&self.path, at, anyhow!("event {number} is missing before it")));
            }
            if !is_before {
                break;
            }
            at += header.bytes();
        }
        let mut blocks = vec![scan.block(at)?];
        loop {
            at = scan.next_at(at)?;
            match scan.is_at_hand(at) {
                true => blocks.push(scan.block(at)?),
                false => return Ok(blocks),
            }
        }
    }

    /// A block at or before the one that holds an event. The first time, the file is looked through.
    fn place_before(&self, number: EventNumber, scan: &mut Scan<'_>) -> Result<u64> {
        let known = self.extent().places.clone();
        let places = match known {
            Some(places) => places,
            None => {
                let mut places = Vec::new();
                let mut at = self.first_at;
                while at < scan.end {
                    let header = scan.header(at)?.with_context(|| scan.what_is_at(at))?;
                    remember(&mut places, EventNumber(header.start.line), at);
                    at += header.bytes();
                }
                self.extent().places = Some(places.clone());
                places
            }
        };
        let after = places.partition_point(|(first, _)| *first <= number);
        Ok(after.checked_sub(1).map_or(self.first_at, |index| places[index].1))
    }

    /// What was remembered while the file was looked through from its first block to here.
    pub fn looked_through(&self, bytes: u64, places: Vec<(EventNumber, u64)>) {
        *self.extent() = Extent { bytes, places: Some(places) };
    }

    fn extent(&self) -> MutexGuard<'_, Extent> {
        self.extent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers a block, unless one of the same window is.
pub(super) fn remember(places: &mut Vec<(EventNumber, u64)>, first: EventNumber, at: u64) {
    if places.last().is_none_or(|(_, last)| at >= last + WINDOW_BYTES as u64) {
        places.push((first, at));
    }
}

/// Names the file and the place, and says what to do.
pub(super) fn damaged(path: &Path, at: u64, what: anyhow::Error) -> anyhow::Error {
    anyhow!(
        "{} is damaged at byte {at}: {what:#}; what comes before can be read: put the file from a backup in its place, or delete the \
         stream",
        path.display()
    )
}

/// Reads a segment window by window.
pub(super) struct Scan<'s> {
    segment: &'s Segment,
    file: File,
    /// Where the segment ends for this reader.
    pub end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'s> Scan<'s> {
    pub fn new(segment: &'s Segment) -> Result<Self> {
        let path = &segment.path;
        let file = File::open(path).with_context(|| format!("failed to open {}", path.display()))?;
        Ok(Scan { segment, file, end: segment.bytes(), window: Vec::new(), window_at: 0 })
    }

    /// So many bytes from a place on. None when the segment ends before.
    pub fn bytes(&mut self, at: u64, count: usize) -> Result<Option<&[u8]>> {
        if at.checked_add(count as u64).is_none_or(|end| end > self.end) {
            return Ok(None);
        }
        let start = at.wrapping_sub(self.window_at) as usize;
        if at >= self.window_at && start.saturating_add(count) <= self.window.len() {
            return Ok(Some(&self.window[start..start + count]));
        }
        let wanted = count.max(WINDOW_BYTES).min((self.end - at) as usize);
        self.window.resize(wanted, 0);
        self.window_at = at;
        let read = self.file.read_exact_at(&mut self.window, at);
        if let Err(error) = read {
            self.window.clear();
            return Err(damaged(&self.segment.path, at, error.into()));
        }
        Ok(Some(&self.window[..count]))
    }

    /// The header at a place; none when there is no header, or the block does not end within the segment.
    pub fn header(&mut self, at: u64) -> Result<Option<Header>> {
        let (salt, end) = (self.segment.header.salt, self.end);
        let header = self.bytes(at, HEADER_BYTES)?.and_then(|bytes| Header::read(bytes, salt, at));
        Ok(header.filter(|header| at + header.bytes() <= end))
    }

    /// The bytes of a block up to the end of its notes, or of all of it.
    pub fn part(&mut self, at: u64, bytes: u64) -> Result<&[u8]> {
        let path = &self.segment.path;
        self.bytes(at, bytes as usize)?.ok_or_else(|| damaged(path, at, anyhow!("the file ends in a block")))
    }

    /// Unpacks the block at a place.
    pub fn block(&mut self, at: u64) -> Result<Block> {
        let header = self.header(at)?.with_context(|| self.what_is_at(at))?;
        let (salt, path) = (self.segment.header.salt, &self.segment.path);
        let bytes = self.part(at, header.bytes())?;
        header.unpack(bytes, salt, at).map_err(|error| damaged(path, at, error))
    }

    fn next_at(&mut self, at: u64) -> Result<u64> {
        Ok(at + self.header(at)?.map_or(0, |header| header.bytes()))
    }

    /// Whether a whole block at this place was read already.
    fn is_at_hand(&mut self, at: u64) -> bool {
        let window_end = self.window_at + self.window.len() as u64;
        let is_in = |count: u64| at >= self.window_at && at + count <= window_end;
        is_in(HEADER_BYTES as u64)
            && self.header(at).is_ok_and(|header| {
                header.is_some_and(|header| at >= self.window_at && at + header.bytes() <= window_end)
            })
    }

    fn what_is_at(&self, at: u64) -> String {
        let what =
            if at >= self.end { "the file ends before its last event" } else { "there is no block where one must be" };
        damaged(&self.segment.path, at, anyhow!(what)).to_string()
    }
}
