//! [`Plan`]: everything that decides what a batch gives, written down before it runs. [`Identity`]: what may never change.

use crate::clock::Clock;
use crate::event::{BatchId, Millis, OffsetRange};
use crate::generation::{self, Generation, Older};
use crate::limits::Limits;
use crate::watermark::WatermarkPolicy;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// Everything that decides what a batch gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The batch.
    pub batch: BatchId,
    /// What it reads. A batch without any is one for timeouts alone.
    pub ranges: Vec<OffsetRange>,
    /// Processing time.
    pub time: Millis,
    /// The watermark: timeouts in event time before it are due. None when the inputs have no event time.
    pub watermark: Option<Millis>,
    /// The watermark of the batch before: events at or before it are late.
    pub late_watermark: Option<Millis>,
    /// The greatest event time of each input in this batch and all before it: what the next watermark is made from.
    pub event_times_max: Vec<Option<Millis>>,
    /// Sixteen bytes for rules that want random numbers, in hexadecimal.
    pub seed: String,
    /// The component.
    pub digest: String,
    /// Its parameters, as JSON text: numbers that are read and written again may change in their last digit.
    pub parameters: String,
    /// What it may use: a group that fails at a limit must fail at it again.
    pub limits: Limits,
    /// A batch query: all of the input, no state before and none kept, no late events, and timeouts never fire.
    #[serde(default)]
    pub batch_query: bool,
    /// The generation of the rows that it writes.
    #[serde(default, skip_serializing_if = "is_first")]
    pub generation: Generation,
    /// What becomes of rows of earlier generations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<Older>,
    /// The sweep over rows of earlier generations: the key group that it begins with in this batch, and the one at which it ends at
    /// the latest. None when there is nothing to sweep, or the sweep is through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<(u16, u16)>,
}

/// An activation that no batch has run with yet: what a plan would say of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activated {
    /// The last batch that was planned before it.
    pub after: Option<BatchId>,
    /// The component.
    pub digest: String,
    /// The generation of the rows that it writes.
    pub generation: Generation,
    /// What becomes of rows of earlier generations.
    pub older: Vec<Older>,
    /// Whether a sweep has to begin.
    pub sweeps: bool,
}

/// Plans of the first generation look as they did before there were any.
fn is_first(generation: &Generation) -> bool {
    *generation == Generation::default()
}

/// How far the watermark had come when the input was used up after a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The batch.
    pub batch: BatchId,
    /// The watermark that a batch after it would have had.
    pub watermark: Millis,
}

/// What a data folder was made with and must be used with: a re-run of a planned batch would differ otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The rule's name.
    pub rule: String,
    /// The number of partitions.
    pub partitions: u32,
    /// What is read, in the order of the names.
    pub inputs: Vec<InputIdentity>,
    /// Which of the inputs' watermarks is the rule's.
    pub watermark_policy: WatermarkPolicy,
    /// Longer records are rejected.
    pub record_bytes_max: usize,
    /// CSV columns that stay text.
    pub csv_text: Vec<String>,
    /// Unique for this folder: seeds are made from it.
    pub id: String,
}

/// What an input was read as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputIdentity {
    /// Its name.
    pub name: String,
    /// JSON Pointers to the parts of the key.
    pub key: Vec<String>,
    /// JSON Pointer to the event time, and how it is written.
    pub event_time: Option<(String, String)>,
}

impl Plan {
    /// The components that run in it.
    pub fn digests(&self) -> impl Iterator<Item = &str> {
        let drained = generation::drained(&self.older).map(|drained| drained.digest.as_str());
        std::iter::once(self.digest.as_str()).chain(drained)
    }

    /// The seed as bytes.
    pub fn seed_bytes(&self) -> [u8; 16] {
        let mut seed = [0; 16];
        for (byte, digits) in seed.iter_mut().zip(self.seed.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        seed
    }
}

impl Identity {
    /// An id that no other folder has.
    pub fn new_id(clock: &Clock) -> String {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
        format!("{random:016x}{:016x}", clock.now().0)
    }

    /// Whether events have a time: all inputs do, or none.
    pub fn has_event_time(&self) -> bool {
        self.inputs.iter().any(|input| input.event_time.is_some())
    }

    /// Refuses another rule, other inputs or another number of partitions, naming what differs.
    pub fn check_same(&self, wanted: &Identity) -> Result<()> {
        let names = |identity: &Identity| -> String {
            identity.inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let policy = |identity: &Identity| identity.watermark_policy.name().to_owned();
        let mut pairs = vec![
            ("the rule is".to_owned(), self.rule.clone(), wanted.rule.clone()),
            ("the number of partitions is".to_owned(), self.partitions.to_string(), wanted.partitions.to_string()),
            ("the list of inputs is".to_owned(), names(self), names(wanted)),
            ("the watermark policy is".to_owned(), policy(self), policy(wanted)),
            ("record-bytes-max is".to_owned(), self.record_bytes_max.to_string(), wanted.record_bytes_max.to_string()),
            ("csv-text is".to_owned(), self.csv_text.join(" "), wanted.csv_text.join(" ")),
        ];
        for (found, wanted) in self.inputs.iter().zip(&wanted.inputs) {
            // Nobody who has one input has named it.
            let of = if self.inputs.len() == 1 { String::new() } else { format!(" of {}", found.name) };
            let time = |input: &InputIdentity| input.event_time.clone().unwrap_or_default();
            pairs.push((format!("the key{of} is"), found.key.join(" "), wanted.key.join(" ")));
            pairs.push((format!("the event time{of} is"), time(found).0, time(wanted).0));
            pairs.push((format!("the event time's format{of} is"), time(found).1, time(wanted).1));
        }
        let differences: Vec<String> = pairs
            .into_iter()
            .filter(|(_, found, wanted)| found != wanted)
            .map(|(what, found, wanted)| format!("{what} '{found}' there and '{wanted}' here"))
            .collect();
        if differences.is_empty() {
            return Ok(());
        }
        let split = match self.partitions == wanted.partitions {
            true => "",
            false => "; `keyfold state split` changes the number of partitions",
        };
        bail!("{}: use the same settings, or another folder with --data{split}", differences.join("; "))
    }
}
