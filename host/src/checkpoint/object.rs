//! What the objects hold. Plans, commits and the like are JSON between a line with the version of the format and one with a
//! checksum, so that a person can read them; a delta is compressed. Every object says when it is damaged.

use crate::clock::Clock;
use crate::event::{BatchId, Millis};
use crate::plan::{Identity, Plan};
use crate::state::{DeadLetter, OutputBlock};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The version of all objects. A host refuses objects of a later one.
const VERSION: &str = "v1";
const DELTA_MARK: &[u8; 8] = b"keyfold\x01";
const CHECKSUM_BYTES: usize = 8;
/// Fast, and most of what there is to win: states are small and alike.
const ZSTD_LEVEL: i32 = 1;
/// A delta says how long it is; one that claims more is damaged.
const DELTA_BYTES_MAX: usize = u32::MAX as usize;

/// `metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// What the data folder was made with; its id is that of the history of batches.
    pub identity: Identity,
    /// What the rule says of itself, without the schema of its parameters.
    pub description: serde_json::Value,
}

/// `epoch/<e>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// When the host started.
    pub time: Millis,
    /// The machine's name, for people.
    pub machine: String,
    /// The process, for people.
    pub process: u32,
    /// Its data folder, for people.
    pub folder: String,
    /// Makes two starts differ, whatever else agrees.
    pub nonce: String,
}

/// `offsets/<batch>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offsets {
    /// The epoch of the host that planned it. A plan that is written again by another host keeps it.
    pub epoch: u64,
    /// The plan.
    pub plan: Plan,
}

/// `commits/<batch>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The epoch of the host that wrote it.
    pub epoch: u64,
    /// When it was written.
    pub time: Millis,
    /// Outputs up to this batch were known to be delivered.
    pub delivered: Option<BatchId>,
    /// What the batch did in each partition.
    pub partitions: Vec<PartitionCommit>,
}

/// What a batch did in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionCommit {
    /// Keys with state or a timeout, after the batch.
    pub rows: u64,
    /// The checksum of the partition's delta object; none when the batch did nothing there, and there is no object.
    pub delta: Option<u64>,
}

/// `state/0/<partition>/<batch>.delta`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// The changed rows, as [`crate::state::delta::read`] reads them; empty when none changed.
    pub changes: Vec<u8>,
    /// Keys with state or a timeout, after the batch.
    pub rows: u64,
    /// What the batch put out.
    pub outputs: OutputBlock,
    /// What failed, in the order of their numbers.
    pub dead_letters: Vec<DeadLetter>,
    /// The dead letters whose events ran again in the batch: the batch and the number of each.
    pub re_driven: Vec<(BatchId, u64)>,
}

#[derive(Serialize, Deserialize)]
struct DeltaHead {
    rows: u64,
    changes: usize,
    outputs: u64,
    lines: usize,
    dead_letters: usize,
    re_driven: Vec<(BatchId, u64)>,
}

impl Epoch {
    /// This start of this process.
    pub fn new(folder: String, clock: &Clock) -> Self {
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
        Epoch {
            time: clock.now(),
            machine: machine.trim().to_owned(),
            process: std::process::id(),
            folder,
            nonce: format!("{random:016x}"),
        }
    }
}

/// Writes one of the objects that are JSON.
pub fn to_text(value: &impl Serialize) -> Result<Bytes> {
    let json = serde_json::to_string(value)?;
    let checksum = xxh3_64(json.as_bytes());
    Ok(format!("{VERSION}\n{json}\n{checksum:016x}\n").into())
}

/// Reads one of the objects that are JSON. `name` is for the error.
pub fn of_text<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    let read = || -> Result<T> {
        let text = std::str::from_utf8(bytes).context("it is not text")?;
        let mut lines = text.split('\n');
        let version = lines.next().unwrap_or_default();
        let (Some(json), Some(checksum), Some(""), None) = (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            bail!("it ends too early: the object is damaged");
        };
        ensure!(version == VERSION, "it has the version {version:.20}, and this host reads {VERSION}");
        ensure!(
            checksum == format!("{:016x}", xxh3_64(json.as_bytes())),
            "its checksum is wrong: the object is damaged"
        );
        Ok(serde_json::from_str(json)?)
    };
    read().with_context(|| format!("failed to read {name}"))
}

impl Delta {
    /// Whether the batch did nothing, and no object is written.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.outputs.outputs == 0
            && self.dead_letters.is_empty()
            && self.re_driven.is_empty()
    }

    /// The object.
    pub fn to_bytes(&self) -> Result<Bytes> {
        let letters = serde_json::to_vec(&self.dead_letters)?;
        let head = serde_json::to_vec(&DeltaHead {
            rows: self.rows,
            changes: self.changes.len(),
            outputs: self.outputs.outputs,
            lines: self.outputs.lines.len(),
            dead_letters: letters.len(),
            re_driven: self.re_driven.clone(),
        })?;
        let mut body = (head.len() as u32).to_le_bytes().to_vec();
        for part in [&head, &self.changes, &self.outputs.lines, &letters] {
            body.extend_from_slice(part);
        }
        let mut bytes = DELTA_MARK.to_vec();
        bytes.extend(u32::try_from(body.len()).context("the changes of a batch take more than 4 GiB")?.to_le_bytes());
        bytes.extend(zstd::bulk::compress(&body, ZSTD_LEVEL)?);
        let checksum = xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        Ok(bytes.into())
    }

    /// Reads the object. `name` is for the error.
    pub fn of_bytes(name: &str, bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).with_context(|| format!("failed to read {name}"))
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        check(bytes)?;
        let rest = &bytes[..bytes.len() - CHECKSUM_BYTES];
        let rest = rest.strip_prefix(DELTA_MARK).context("it is not a delta of this version")?;
        let (length, compressed) = rest.split_first_chunk().context("it has no length")?;
        let body = zstd::bulk::decompress(compressed, (u32::from_le_bytes(*length) as usize).min(DELTA_BYTES_MAX))?;
        let (length, mut body) = body.split_first_chunk().context("it has no head")?;
        let mut take = |length: usize| -> Result<&[u8]> {
            let (taken, rest) = body.split_at_checked(length).context("a part of it is missing")?;
            body = rest;
            Ok(taken)
        };
        let head: DeltaHead = serde_json::from_slice(take(u32::from_le_bytes(*length) as usize)?)?;
        let delta = Delta {
            changes: take(head.changes)?.to_vec(),
            rows: head.rows,
            outputs: OutputBlock { outputs: head.outputs, lines: take(head.lines)?.to_vec() },
            dead_letters: serde_json::from_slice(take(head.dead_letters)?)?,
            re_driven: head.re_driven,
        };
        ensure!(body.is_empty(), "it has {} bytes too many", body.len());
        Ok(delta)
    }
}

/// The checksum at the end of a delta, which its commit repeats.
pub fn checksum_of(bytes: &[u8]) -> Option<u64> {
    bytes.last_chunk().map(|checksum| u64::from_le_bytes(*checksum))
}

/// Whether the checksum at the end of a delta is right.
pub fn check(bytes: &[u8]) -> Result<()> {
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().context("it is too short for a checksum")?;
    ensure!(u64::from_le_bytes(*checksum) == xxh3_64(content), "its checksum is wrong: the object is damaged");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta() -> Delta {
        let letter = DeadLetter {
            reason: "trap".to_owned(),
            message: "it failed".to_owned(),
            key: Some("k".to_owned()),
            digest: None,
            fuel: Some(3),
            timed_out: false,
            events: Vec::new(),
        };
        let outputs = OutputBlock { outputs: 2, lines: b"1\n2\n".to_vec() };
        Delta { changes: vec![7; 300], rows: 9, outputs, dead_letters: vec![letter], re_driven: vec![(BatchId(1), 2)] }
    }

    #[test]
    fn a_delta_comes_back_as_it_went_in() {
        let bytes = delta().to_bytes().expect("it can be written");
        assert_eq!(Delta::of_bytes("x", &bytes).expect("it is whole"), delta());
    }

    #[test]
    fn every_flipped_or_missing_byte_of_a_delta_is_found() {
        let bytes = delta().to_bytes().expect("it can be written");
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 4;
            assert!(Delta::of_bytes("x", &damaged).is_err(), "byte {at}");
            assert!(Delta::of_bytes("x", &bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn every_flipped_or_missing_byte_of_a_text_is_found() {
        let epoch = Epoch::new("/data".to_owned(), &Clock::System);
        let bytes = to_text(&epoch).expect("it can be written");
        assert_eq!(of_text::<Epoch>("x", &bytes).expect("it is whole"), epoch);
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 4;
            assert!(of_text::<Epoch>("x", &damaged).is_err(), "byte {at}");
            assert!(of_text::<Epoch>("x", &bytes[..at]).is_err(), "cut at {at}");
        }
    }
}
