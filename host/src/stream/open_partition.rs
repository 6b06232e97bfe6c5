//! Opening a partition: what a crash left of a commit is cut off, damage is told from it, and what is remembered is read again.

use super::EventNumber;
use super::block::{HEADER_BYTES, Header, MAGIC};
use super::notes::Notes;
use super::segment::{Scan, Segment, damaged, remember};
use crate::event::{Millis, Position};
use crate::synced;
use anyhow::{Context, Result, anyhow, ensure};
use memchr::memmem;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// A partition as it was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub segments: Vec<Arc<Segment>>,
    pub end: Position,
    /// When the last event was taken.
    pub last_received: Millis,
    /// How many ids and requests were ever noted in the partition.
    pub ids: u64,
    pub requests: u64,
    /// The notes of the last blocks, as far as they are wanted, each with its block's time and first event.
    pub notes: VecDeque<(Millis, EventNumber, Notes)>,
    /// The notes of the last segment: producers of earlier ones are in its header.
    pub last_notes: Vec<Notes>,
}

/// What the last segment holds.
struct Whole {
    end: Position,
    bytes: u64,
    places: Vec<(EventNumber, u64)>,
    noted: Vec<(Millis, EventNumber, Notes)>,
    last_received: Millis,
}

/// Opens the partition in a folder; there may be none. `remembered`: how many ids and requests are to be known again.
pub(super) fn open(folder: &Path, remembered: usize) -> Result<Found> {
    if !folder.exists() {
        return Ok(Found::default());
    }
    let mut segments: Vec<Arc<Segment>> = Vec::new();
    for (first, path) in Segment::list(folder)? {
        let segment = Segment::open(path, first)?;
        if let Some(before) = segments.last() {
            let is_after = before.header.start.offset <= segment.header.start.offset;
            ensure!(is_after, damaged(&segment.path, 0, anyhow!("it begins before the file before it")));
        }
        segments.push(Arc::new(segment));
    }
    let Some(last) = segments.last() else { return Ok(Found::default()) };
    let whole = look_through(last)?;
    cut(last, whole.bytes)?;
    last.looked_through(whole.bytes, whole.places);
    let noted = |count: fn(&Notes) -> usize| whole.noted.iter().map(|(_, _, notes)| count(notes) as u64).sum::<u64>();
    let mut found = Found {
        end: whole.end,
        last_received: whole.last_received,
        ids: last.header.ids_before + noted(|notes| notes.ids.len()),
        requests: last.header.requests_before + noted(|notes| notes.requests.len()),
        last_notes: whole.noted.iter().map(|(_, _, notes)| notes.clone()).collect(),
        notes: whole.noted.into(),
        segments,
    };
    read_earlier_notes(&mut found, remembered as u64)?;
    Ok(found)
}

/// Looks through the last segment, up to the last commit that is whole.
fn look_through(segment: &Segment) -> Result<Whole> {
    let mut scan = Scan::new(segment)?;
    let (salt, path) = (segment.header.salt, &segment.path);
    let start = segment.header.start;
    let mut whole = Whole {
        end: start,
        bytes: segment.first_at,
        places: Vec::new(),
        noted: Vec::new(),
        last_received: segment.header.created,
    };
    // The blocks of a commit that has not ended yet.
    let mut commit: Vec<(u64, Header, Notes)> = Vec::new();
    let mut at = segment.first_at;
    let mut end = start;
    while let Some(header) = scan.header(at)?.filter(|header| header.start == end) {
        let bytes = scan.part(at, header.bytes())?;
        if header.check(bytes, salt, at).is_err() {
            break;
        }
        let Ok(notes) = header.notes(bytes, salt, at) else { break };
        commit.push((at, header, notes));
        at += header.bytes();
        end = header.end();
        if header.following == 0 {
            for (at, header, notes) in commit.drain(..) {
                let first = EventNumber(header.start.line);
                remember(&mut whole.places, first, at);
                whole.last_received = header.received;
                if !notes.is_empty() {
                    whole.noted.push((header.received, first, notes));
                }
            }
            (whole.end, whole.bytes) = (end, at);
        }
    }
    let torn_at = whole.bytes;
    if torn_at < scan.end
        && let Some(later) = later_commit(&mut scan, salt, torn_at)?
    {
        let what = anyhow!("there is no whole block, although one that was written later is at byte {later}");
        return Err(damaged(path, at, what));
    }
    Ok(whole)
}

/// A block after this place whose commit began after it, too. The commits before that one were synced, so what is wrong before it is no
/// crash's doing.
fn later_commit(scan: &mut Scan<'_>, salt: u64, torn_at: u64) -> Result<Option<u64>> {
    const STEP: u64 = 1 << 20;
    let mut at = torn_at + 1;
    while at < scan.end {
        // Each step sees a header more than it moves on, so that none is cut in two.
        let count = (scan.end - at).min(STEP + HEADER_BYTES as u64) as usize;
        let bytes = scan.bytes(at, count)?.unwrap_or_default();
        let places = memmem::find_iter(bytes, &MAGIC);
        let headers = places.filter_map(|place| Some((place, Header::read(&bytes[place..], salt, at + place as u64)?)));
        if let Some((place, _)) = headers.into_iter().find(|(_, header)| header.commit_at > torn_at) {
            return Ok(Some(at + place as u64));
        }
        at += STEP;
    }
    Ok(None)
}

/// Cuts off what was never answered. What is kept may not have been synced by a process that was killed, so that is done now, before
/// anybody reads it.
fn cut(segment: &Segment, bytes: u64) -> Result<()> {
    let attempt = || format!("failed to cut {} at byte {bytes}", segment.path.display());
    let file = segment.to_write().with_context(attempt)?;
    if file.metadata().with_context(attempt)?.len() != bytes {
        let cut = segment.bytes().saturating_sub(bytes);
        let name = segment.path.display();
        tracing::warn!("cut {cut} bytes off the end of {name}: a crash left half a commit, which nobody was told of");
        file.set_len(bytes).with_context(attempt)?;
    }
    synced::file(&file, &segment.path);
    Ok(())
}

/// Reads the notes of earlier segments, the last ones first, until enough are known.
fn read_earlier_notes(found: &mut Found, remembered: u64) -> Result<()> {
    for index in (1..found.segments.len()).rev() {
        let (segment, next) = (&found.segments[index - 1], &found.segments[index].header);
        let (ids, requests) = (next.ids_before, next.requests_before);
        let is_wanted = |before: u64, of_segment: u64, total: u64| before > of_segment && total - before < remembered;
        let own = &segment.header;
        if !is_wanted(ids, own.ids_before, found.ids) && !is_wanted(requests, own.requests_before, found.requests) {
            continue;
        }
        let mut scan = Scan::new(segment)?;
        let mut noted = Vec::new();
        let mut at = segment.first_at;
        while at < scan.end {
            let missing = || damaged(&segment.path, at, anyhow!("there is no block where one must be"));
            let header = scan.header(at)?.ok_or_else(missing)?;
            let bytes = scan.part(at, header.bytes_with_notes() as u64)?;
            let notes = header.notes(bytes, own.salt, at).map_err(|error| damaged(&segment.path, at, error))?;
            if !notes.is_empty() {
                noted.push((header.received, EventNumber(header.start.line), notes));
            }
            at += header.bytes();
        }
        noted.into_iter().rev().for_each(|noted| found.notes.push_front(noted));
    }
    Ok(())
}
