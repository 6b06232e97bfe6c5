//! [`Plan`]: everything that decides what a batch gives, written down before it runs. [`Identity`]: what may never change.

use crate::event::{BatchId, Millis, OffsetRange};
use crate::limits::Limits;
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
    /// The watermark: timeouts in event time before it are due. None when the input has no event time.
    pub watermark: Option<Millis>,
    /// The watermark of the batch before: events at or before it are late.
    pub late_watermark: Option<Millis>,
    /// The greatest event time of this batch and all before it: what the next watermark is made from.
    pub event_time_max: Option<Millis>,
    /// Sixteen bytes for rules that want random numbers, in hexadecimal.
    pub seed: String,
    /// The component.
    pub digest: String,
    /// Its parameters, as JSON text: numbers that are read and written again may change in their last digit.
    pub parameters: String,
    /// What it may use: a group that fails at a limit must fail at it again.
    pub limits: Limits,
}

/// What a data folder was made with and must be used with: a re-run of a planned batch would differ otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The rule's name.
    pub rule: String,
    /// The number of partitions.
    pub partitions: u32,
    /// JSON Pointers to the parts of the key.
    pub key: Vec<String>,
    /// JSON Pointer to the event time.
    pub event_time: Option<String>,
    /// The format of the event time.
    pub event_time_format: String,
    /// Longer records are rejected.
    pub record_bytes_max: usize,
    /// CSV columns that stay text.
    pub csv_text: Vec<String>,
    /// Unique for this folder: seeds are made from it.
    pub id: String,
}

impl Plan {
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
    /// Refuses another rule, key, event time or number of partitions, naming what differs.
    pub fn check_same(&self, wanted: &Identity) -> Result<()> {
        let differences: Vec<String> = [
            ("the rule is", self.rule.clone(), wanted.rule.clone()),
            ("the number of partitions is", self.partitions.to_string(), wanted.partitions.to_string()),
            ("the key is", self.key.join(" "), wanted.key.join(" ")),
            (
                "the event time is",
                self.event_time.clone().unwrap_or_default(),
                wanted.event_time.clone().unwrap_or_default(),
            ),
            ("the event time's format is", self.event_time_format.clone(), wanted.event_time_format.clone()),
            ("record-bytes-max is", self.record_bytes_max.to_string(), wanted.record_bytes_max.to_string()),
            ("csv-text is", self.csv_text.join(" "), wanted.csv_text.join(" ")),
        ]
        .into_iter()
        .filter(|(_, found, wanted)| found != wanted)
        .map(|(what, found, wanted)| format!("{what} '{found}' there and '{wanted}' here"))
        .collect();
        if differences.is_empty() {
            return Ok(());
        }
        bail!("{}: use the same settings, or another folder with --data", differences.join("; "))
    }
}
