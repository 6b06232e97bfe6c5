//! [`RunnerSettings`]: what a rule is made of, and [`Parked`]: what is to be known of one that is not open.

use super::judge::{QuarantineSettings, RollbackSettings, Trial};
use crate::config::Webhook;
use crate::event::{BatchId, InputId, Millis, Position, Positions};
use crate::extract::{Extractor, TimeFormat};
use crate::fair::TenantShare;
use crate::host::{Activation, InputSettings, StateChoice};
use crate::limits::Limits;
use crate::plan::Identity;
use crate::rule_log::RuleLog;
use crate::sink::{Sink, StreamSink, WebhookSink};
use crate::source::ReadLimit;
use crate::stream::StreamLog;
use crate::wasm::{Component, component::Loader};
use crate::watermark::InputWatermark;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a rule is made of.
pub struct RunnerSettings {
    /// Its id, which no other rule has or will have: whose outputs those in a stream are.
    pub id: String,
    /// Tenant and rule, for the log.
    pub name: String,
    /// The data folder of its host.
    pub folder: PathBuf,
    /// What the folder belongs to. `identity.id` is used only when the folder is new.
    pub identity: Identity,
    /// What it reads, in the order of the identity's inputs.
    pub inputs: Vec<RuleInput>,
    /// Where its outputs go.
    pub sink: SinkSettings,
    /// Loads the components of batches that were planned with another version.
    pub loader: Arc<Loader>,
    /// Its tenant's share of the cores.
    pub share: TenantShare,
    /// What runs. After a restart: what was active last, and an activation that the data folder does not know is asked for again.
    pub version: RuleVersion,
    /// Set while the first batches of an activation run, so that it can be rolled back after a restart as well.
    pub trial: Option<Trial>,
    /// How much one batch reads.
    pub batch: ReadLimit,
    /// At most one batch in each interval; none for as soon as there is something to do.
    pub interval: Option<Duration>,
    /// Threads for the partitions.
    pub threads: usize,
    /// So many batches before the last one stay readable.
    pub history_batches: u64,
    /// It is closed when there was nothing to do for so long; none for never.
    pub park_after: Option<Duration>,
    /// When it is left alone.
    pub quarantine: QuarantineSettings,
    /// When an activation is taken back.
    pub rollback: RollbackSettings,
    /// Where the lines go that it logs.
    pub log: Arc<dyn RuleLog>,
    /// Why it does not run, after a restart.
    pub stopped: Option<Stopped>,
    /// Whether each batch is evaluated twice, for tests.
    pub twice: bool,
}

/// Why a rule does not run although it could.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// Somebody has paused it.
    Paused {
        /// Who.
        by: String,
    },
    /// It failed again and again.
    Quarantined {
        /// What happened.
        reason: String,
        /// Since when.
        since: Millis,
    },
}

/// A stream that a rule reads.
pub struct RuleInput {
    /// The stream's name, for progress reports.
    pub stream: String,
    /// JSON Pointers to the parts of the key.
    pub key: Vec<String>,
    /// JSON Pointer to the event time, and its form.
    pub event_time: Option<(String, TimeFormat)>,
    /// How it moves the watermark.
    pub watermark: InputWatermark,
    /// The stream.
    pub log: Arc<StreamLog>,
    /// Where the rule begins, one for each partition of the stream.
    pub start: Vec<Position>,
}

/// What of a rule can be replaced while it runs.
#[derive(Clone)]
pub struct RuleVersion {
    /// Its code.
    pub component: Arc<Component>,
    /// Its parameters.
    pub parameters: serde_json::Value,
    /// What it may use.
    pub limits: Limits,
}

/// Where outputs go.
pub enum SinkSettings {
    /// To a stream, each once.
    Stream {
        /// The stream.
        log: Arc<StreamLog>,
        /// Its name.
        name: String,
    },
    /// To a URL.
    Webhook(Webhook),
    /// To whatever this makes, for tests.
    Other(Box<dyn Fn() -> Box<dyn Sink> + Send + Sync>),
}

/// A rule that is not open: what it waits for. Positions are those of batches that are committed, by input and partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// How far each partition of each input was read.
    pub positions: Vec<Vec<Position>>,
    /// When the next timeout in processing time is due: strictly after this.
    pub next_due: Option<Millis>,
    /// The number that the next batch gets.
    pub next_batch: BatchId,
    /// Keys with state or a timeout.
    pub keys: u64,
}

impl RuleInput {
    /// As the host wants it.
    pub(super) fn settings(&self) -> Result<InputSettings> {
        let extractor = Extractor::new(self.key.clone(), self.event_time.clone())?;
        Ok(InputSettings { extractor, watermark: self.watermark })
    }

    /// How far the partitions were read, of what a plan log knows.
    pub(super) fn positions(&self, input: InputId, known: &Positions) -> Vec<Position> {
        let of = |(partition, start): (usize, &Position)| {
            known.get(&(input, partition.to_string())).copied().unwrap_or(*start)
        };
        self.start.iter().enumerate().map(of).collect()
    }
}

impl RuleVersion {
    /// Its digest.
    pub fn digest(&self) -> &str {
        self.component.digest()
    }

    /// What it calls its version.
    pub fn label(&self) -> &str {
        &self.component.description().version
    }

    /// What an activation makes of it.
    pub fn of(activation: &Activation) -> Self {
        let Activation { component, parameters, limits, .. } = activation;
        RuleVersion { component: Arc::clone(component), parameters: parameters.clone(), limits: limits.clone() }
    }

    /// Its activation.
    pub fn activation(&self, state: StateChoice) -> Activation {
        let RuleVersion { component, parameters, limits } = self.clone();
        Activation { component, parameters, limits, state }
    }
}

impl SinkSettings {
    pub(super) fn open(&self, rule: &str, id: &str, folder_id: &str) -> Result<Box<dyn Sink>> {
        Ok(match self {
            SinkSettings::Stream { log, name } => Box::new(StreamSink::new(Arc::clone(log), id.to_owned()).named(name)),
            SinkSettings::Webhook(webhook) => Box::new(WebhookSink::open(webhook, rule, folder_id)?),
            SinkSettings::Other(make) => make(),
        })
    }
}
