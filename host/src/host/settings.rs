//! [`Settings`]: what a host is made of.

use super::{Control, Delivery, Hosting};
use crate::checkpoint::CheckpointSettings;
use crate::config;
use crate::description::{Description, TimeoutKind};
use crate::extract::Extractor;
use crate::limits::Limits;
use crate::plan::Identity;
use crate::source::ReadLimit;
use crate::state::Budget;
use crate::watermark::InputWatermark;
use anyhow::{Result, ensure};
use std::path::PathBuf;
use std::sync::Arc;

/// What a host is made of.
pub struct Settings {
    /// The data folder.
    pub folder: PathBuf,
    /// What the folder belongs to; its id is used only when the folder is new.
    pub identity: Identity,
    /// How each input is read, in the order of the identity's.
    pub inputs: Vec<InputSettings>,
    /// States that a new folder begins with.
    pub initial_state: Option<PathBuf>,
    /// The rule's parameters.
    pub parameters: serde_json::Value,
    /// What the rule may use.
    pub limits: Limits,
    /// How much one batch reads.
    pub batch: ReadLimit,
    /// Threads for the partitions.
    pub threads: usize,
    /// So many batches before the last one stay readable.
    pub history_batches: u64,
    /// Where the state is kept besides the data folder, and how.
    pub checkpoint: Option<CheckpointSettings>,
    /// What the changed states of all partitions may take in memory before they are folded into the tables.
    pub overlay_budget: Budget,
    /// Whether this is a batch query: the rule once over all of the input, `batch.bytes_max` of it at a time.
    pub batch_query: bool,
    /// Whether each batch is evaluated twice, and ends the run unless both gave the same. For tests: it finds a host or a rule whose
    /// answer depends on more than what was planned.
    pub twice: bool,
    /// What others ask of the host while it runs.
    pub control: Arc<Control>,
    /// How it shares its process with others.
    pub hosting: Hosting,
    /// How outputs are delivered.
    pub delivery: Delivery,
}

impl Settings {
    /// A rule that sets timeouts in event time needs events that have one.
    pub(super) fn check_event_time(&self, rule: &Description) -> Result<()> {
        let needs_event_time = rule.timeout == TimeoutKind::EventTime;
        ensure!(
            !needs_event_time || self.identity.has_event_time() || self.batch_query,
            "the rule sets timeouts in event time and the input has none: name its field with --event-time"
        );
        Ok(())
    }
}

/// How an input is read.
#[derive(Debug)]
pub struct InputSettings {
    /// Finds key and time.
    pub extractor: Extractor,
    /// How it moves the watermark.
    pub watermark: InputWatermark,
}

impl InputSettings {
    /// As a configuration says.
    pub fn of(input: &config::Input) -> Result<Self> {
        let extractor = Extractor::new(input.key.clone(), input.event_time.clone())?;
        Ok(InputSettings { extractor, watermark: input.watermark })
    }
}
