//! [`Writer`]: puts commits on the disk, all of a commit or none.

use super::EventNumber;
use super::block::{self, Block};
use super::commit::{Commit, Part};
use super::notes::{Notes, ProducerNote};
use super::partition::Partition;
use super::remembered::Remembered;
use super::segment::Segment;
use super::segment_header::SegmentHeader;
use crate::event::{Millis, Position};
use crate::fault;
use crate::synced;
use anyhow::{Context, Result};
use hashbrown::HashMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use zstd::bulk::Compressor;

/// What the thread that writes knows.
pub(super) struct Writer {
    pub remembered: Remembered,
    pub parts: Vec<WrittenPart>,
    /// When the last commit was made: time does not go backwards, whatever the clock does.
    pub last_received: Millis,
    compressor: Compressor<'static>,
}

/// A partition, as the writer knows it.
#[derive(Default)]
pub(super) struct WrittenPart {
    /// The segment that is written to; none before the first event.
    pub active: Option<Arc<Segment>>,
    pub end: Position,
    /// When the last event was taken.
    pub last_received: Millis,
    /// The last batch of each producer.
    pub producers: HashMap<String, u64>,
    /// How many ids and requests were noted.
    pub ids: u64,
    pub requests: u64,
    /// Whether the file may be longer than it should be, because a failed commit could not be cut off.
    pub is_dirty: bool,
}

/// A commit in one partition, in a file and not synced.
struct Unsynced<'p> {
    partition: u32,
    part: &'p Part,
    segment: Arc<Segment>,
    file: File,
    at: u64,
    end_at: u64,
    places: Vec<(EventNumber, u64)>,
}

impl Writer {
    pub fn new(remembered: Remembered, parts: Vec<WrittenPart>, last_received: Millis) -> Result<Self> {
        let compressor = Compressor::new(block::ZSTD_LEVEL).context("zstd does not start")?;
        Ok(Writer { remembered, parts, last_received, compressor })
    }

    /// Begins a commit.
    pub fn begin(&self, block_bytes: usize, now: Millis) -> Commit<'_> {
        let ends = self.parts.iter().map(|part| (part.end, &part.producers));
        Commit::new(&self.remembered, ends, block_bytes, now.max(self.last_received))
    }

    /// Puts the blocks on the disk. They can be read when `finish` is called with them. After an error nothing of them is there.
    /// Returns how many syncs it took.
    pub fn write(
        &mut self,
        partitions: &[Partition],
        parts: &[Part],
        segment_bytes: u64,
        now: Millis,
    ) -> io::Result<u64> {
        let mut unsynced = Vec::new();
        let written = self.write_unsynced(partitions, parts, segment_bytes, now, &mut unsynced);
        if let Err(error) = written {
            self.cut_off(&unsynced);
            return Err(error);
        }
        sync_all(&unsynced);
        for commit in &unsynced {
            commit.segment.grow(commit.end_at, commit.places.iter().copied());
            let part = &mut self.parts[commit.partition as usize];
            part.end = commit.part.end;
            part.last_received = commit.part.blocks.last().map_or(part.last_received, |(block, _)| block.received);
            for (block, notes) in &commit.part.blocks {
                part.remember(notes);
                self.remembered.add(commit.partition, EventNumber(block.start.line), notes);
                self.last_received = self.last_received.max(block.received);
            }
        }
        Ok(unsynced.len() as u64)
    }

    fn write_unsynced<'p>(
        &mut self,
        partitions: &[Partition],
        parts: &'p [Part],
        segment_bytes: u64,
        now: Millis,
        unsynced: &mut Vec<Unsynced<'p>>,
    ) -> io::Result<()> {
        for (partition, part) in (0..).zip(parts).filter(|(_, part)| !part.blocks.is_empty()) {
            fault::point("block-begin");
            let known = &mut self.parts[partition as usize];
            let full = |segment: &Arc<Segment>| segment.bytes() >= segment_bytes && segment.has_events();
            let segment = match known.active.as_ref().filter(|segment| !full(segment)) {
                Some(segment) => Arc::clone(segment),
                None => known.roll(&partitions[partition as usize], now.max(self.last_received))?,
            };
            let (file, at) = (segment.to_write()?, segment.bytes());
            if known.is_dirty {
                file.set_len(at)?;
                known.is_dirty = false;
            }
            let (bytes, places) = to_bytes(&part.blocks, segment.header.salt, at, &mut self.compressor);
            let end_at = at + bytes.len() as u64;
            unsynced.push(Unsynced { partition, part, segment, file, at, end_at, places });
            let file = &unsynced[unsynced.len() - 1].file;
            // In two parts, so that a crash or a full disk may come between them.
            let half = bytes.len() / 2;
            file.write_all_at(&bytes[..half], at)?;
            fault::io("block-half-written")?;
            file.write_all_at(&bytes[half..], at + half as u64)?;
            fault::io("block-written")?;
        }
        Ok(())
    }

    /// Takes back what was written of a commit that failed.
    fn cut_off(&mut self, unsynced: &[Unsynced<'_>]) {
        for commit in unsynced {
            match commit.file.set_len(commit.at) {
                // What was refused must not come back after a loss of power.
                Ok(()) => synced::data(&commit.file, &commit.segment.path),
                Err(error) => {
                    let path = commit.segment.path.display();
                    tracing::warn!(
                        "failed to cut {path} at byte {}: {error}; it is done before the next commit",
                        commit.at
                    );
                    self.parts[commit.partition as usize].is_dirty = true;
                }
            }
        }
    }
}

impl WrittenPart {
    /// Begins another segment.
    pub fn roll(&mut self, partition: &Partition, now: Millis) -> io::Result<Arc<Segment>> {
        if self.active.is_none() {
            make_folder(&partition.folder)?;
        }
        let mut producers: Vec<ProducerNote> = self
            .producers
            .iter()
            .map(|(producer, batch)| ProducerNote { producer: producer.clone(), batch: *batch })
            .collect();
        producers.sort_by(|a, b| a.producer.cmp(&b.producer));
        let header = SegmentHeader {
            salt: RandomState::new().build_hasher().finish(),
            start: self.end,
            created: if self.end.line == 0 { now } else { self.last_received },
            ids_before: self.ids,
            requests_before: self.requests,
            producers,
        };
        let segment = Arc::new(Segment::create(&partition.folder, header)?);
        partition.view().segments.push(Arc::clone(&segment));
        self.active = Some(Arc::clone(&segment));
        Ok(segment)
    }

    /// Remembers what a block says.
    pub fn remember(&mut self, notes: &Notes) {
        self.ids += notes.ids.len() as u64;
        self.requests += notes.requests.len() as u64;
        notes.producers.iter().for_each(|note| self.remember_producer(note));
    }

    pub fn remember_producer(&mut self, note: &ProducerNote) {
        let last = self.producers.entry_ref(note.producer.as_str()).or_insert(note.batch);
        *last = note.batch.max(*last);
    }
}

/// Makes a folder that stays, with its own.
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for folder in folder.ancestors().skip(1).take(2).filter(|folder| *folder != Path::new("")) {
        synced::folder(folder)?;
    }
    Ok(())
}

fn to_bytes(
    blocks: &[(Block, Notes)],
    salt: u64,
    at: u64,
    compressor: &mut Compressor<'_>,
) -> (Vec<u8>, Vec<(EventNumber, u64)>) {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for ((block, notes), following) in blocks.iter().zip((0..blocks.len() as u32).rev()) {
        places.push((EventNumber(block.start.line), at + bytes.len() as u64));
        block.write(notes, block::Commit { at, following }, salt, at, compressor, &mut bytes);
    }
    (bytes, places)
}

/// Syncs all files, several at the same time: the disk does them together.
fn sync_all(unsynced: &[Unsynced<'_>]) {
    let sync = |commit: &Unsynced<'_>| {
        if let Err(error) = fault::io("block-sync") {
            synced::end(&commit.segment.path, &error);
        }
        synced::data(&commit.file, &commit.segment.path);
        fault::point("block-synced");
    };
    let Some((first, others)) = unsynced.split_first() else { return };
    std::thread::scope(|scope| {
        others.iter().for_each(|commit| drop(scope.spawn(|| sync(commit))));
        sync(first);
    });
}
