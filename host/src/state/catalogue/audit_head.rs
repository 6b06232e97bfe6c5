//! [`AuditHead`]: the end of the audit's chain, in a file of its own beside the catalogue, so that cutting off the last lines there
//! does not go unseen.
//!
//! It is written and synced before a line is committed, as *begun*, and marked as *done* after it, without a sync. Two slots take
//! turns, so that one that a power loss has torn leaves the other whole.

use super::audit_table::{Link, hex};
use crate::synced;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The file in the data folder.
const FILE: &str = "audit.head";
/// Each slot is a line of text of this length: below a sector, so that it is written whole or not at all.
const SLOT_BYTES: usize = 256;

/// The end of the chain, as it is written down beside it.
pub(super) struct AuditHead {
    path: PathBuf,
    file: File,
    /// The last line that was committed.
    done: u64,
    begun: Option<Head>,
    /// Which slot the next head goes to.
    turn: usize,
    disagreement: Option<Head>,
}

/// What a slot says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The last line.
    pub seq: u64,
    /// Its hash, in hexadecimal.
    pub hash: String,
    /// The last line before the change that this one belongs to.
    pub before: u64,
    /// Whether the line is known to be committed.
    pub done: bool,
}

impl AuditHead {
    /// Opens or makes the file. `end` is the end of the chain as the catalogue has it.
    pub(super) fn open(folder: &Path, end: Link) -> Result<Self> {
        let path = folder.join(FILE);
        let found = read(folder)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("failed to open {}", path.display()))?;
        synced::folder(folder)?;
        let turn = match &found {
            None => 0,
            // What was begun and never committed is written over.
            Some((head, slot)) if head.seq > end.seq => *slot,
            Some((_, slot)) => 1 - slot,
        };
        let disagreement = match found {
            Some((head, _)) => (!head.agrees(end)).then_some(head),
            None => (end != Link::NONE).then(|| Head { seq: 0, hash: String::new(), before: 0, done: false }),
        };
        Ok(AuditHead { path, file, done: end.seq, begun: None, turn, disagreement })
    }

    /// What the file said when it was opened, if the chain did not end so. The next line is written over it.
    pub(super) fn take_disagreement(&mut self) -> Option<Head> {
        self.disagreement.take()
    }

    /// Notes the end that the chain will have. It is on the disk when this returns.
    pub(super) fn begin(&mut self, end: &Link) -> Result<()> {
        let head = Head { seq: end.seq, hash: hex(&end.hash), before: self.done, done: false };
        self.write(&head).with_context(|| format!("failed to write {}", self.path.display()))?;
        synced::file(&self.file, &self.path);
        self.begun = Some(head);
        Ok(())
    }

    /// The change is committed: the chain has the end that was begun, if there was one.
    pub(super) fn done(&mut self) {
        let Some(mut head) = self.begun.take() else { return };
        head.done = true;
        self.done = head.seq;
        // Not synced: if a power loss takes it back, the line counts as begun, and it is there. If it cannot be written, likewise.
        if let Err(error) = self.write(&head) {
            tracing::warn!("failed to write {}: {error}", self.path.display());
        }
        self.turn = 1 - self.turn;
    }

    fn write(&self, head: &Head) -> io::Result<()> {
        let text = serde_json::to_string(head)?;
        let mut slot = format!("{:016x} {text}", xxh3_64(text.as_bytes())).into_bytes();
        assert!(slot.len() < SLOT_BYTES, "a head of {} bytes does not fit its slot of {SLOT_BYTES}", slot.len());
        slot.resize(SLOT_BYTES - 1, b' ');
        slot.push(b'\n');
        self.file.write_all_at(&slot, (self.turn * SLOT_BYTES) as u64)
    }
}

impl Head {
    /// Whether a chain may end so.
    pub(super) fn agrees(&self, end: Link) -> bool {
        let is_whole = self.seq == end.seq && self.hash == hex(&end.hash);
        is_whole || (!self.done && self.before == end.seq)
    }
}

/// The newest head of a data folder, and its slot; None when there is none that is whole.
pub(super) fn read(folder: &Path) -> Result<Option<(Head, usize)>> {
    let path = folder.join(FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("failed to read {}", path.display())),
    };
    let heads = bytes.chunks(SLOT_BYTES).enumerate().filter_map(|(slot, bytes)| Some((parse(bytes)?, slot)));
    Ok(heads.max_by_key(|(head, _)| (head.seq, head.done)))
}

fn parse(slot: &[u8]) -> Option<Head> {
    let (checksum, text) = std::str::from_utf8(slot).ok()?.trim_end().split_once(' ')?;
    let is_whole = checksum == format!("{:016x}", xxh3_64(text.as_bytes()));
    is_whole.then(|| serde_json::from_str(text).ok())?
}
