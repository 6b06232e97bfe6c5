//! [`Config`]: what a rule file and the command line ask for, checked. Text goes in, a value without holes comes out.

mod checkpoint;
mod inputs;
mod one_or_many;
mod webhook;

use crate::checkpoint::ReleaseMode;
use crate::host::{OUTBOX_BYTES_MAX_DEFAULT, Trigger};
use crate::limits::Limits;
use crate::source::file::RECORD_BYTES_MAX_DEFAULT;
use crate::state::OVERLAY_BYTES_DEFAULT;
use crate::watermark::WatermarkPolicy;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use checkpoint::Checkpoint;
pub use inputs::{Input, InputTable};
pub use one_or_many::OneOrMany;
pub use webhook::{Webhook, WebhookTable};

/// Records of one batch at most: large batches make durable commits cheap, and this many take some 20 MB.
pub const BATCH_EVENTS_DEFAULT: usize = 100_000;
/// Bytes of one batch at most, for streams of large events.
pub const BATCH_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Bytes that a batch query holds at most: all of its input at once where that is possible, as each pass reads all of it.
pub const BATCH_QUERY_BYTES_DEFAULT: usize = 1024 * 1024 * 1024;
/// Records are marked with 32-bit offsets, and a block more than the limit may be read.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;
/// Partitions of a new data folder: enough that two to eight cores are busy, few enough that each commit is large.
pub const PARTITIONS_DEFAULT: u32 = 4;
/// Batches before the last one whose state can be read: as many as Spark's `minBatchesToRetain`.
pub const HISTORY_BATCHES_DEFAULT: u64 = 100;
/// Key groups bound the number of partitions.
const PARTITIONS_MAX: u32 = crate::event::KEY_GROUPS;
/// What `keyfold build` writes, and what a rule file means when it names no component.
const COMPONENT_DEFAULT: &str = "rule.wasm";

/// Settings as a user writes them: in a rule file, or as flags. Absent ones are filled in from elsewhere.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Settings {
    /// The component or core module.
    pub component: Option<PathBuf>,
    /// Files, globs, folders, or `-` for standard input; with several inputs, `NAME=PATH`.
    pub input: Option<OneOrMany>,
    /// Several inputs, by name.
    pub inputs: Option<BTreeMap<String, InputTable>>,
    /// JSON Pointers to the parts of the key.
    pub key: Option<OneOrMany>,
    /// JSON Pointer to the event time.
    pub event_time: Option<String>,
    /// How event times are written.
    pub event_time_format: Option<String>,
    /// How far the watermark stays behind.
    pub watermark_delay: Option<String>,
    /// Which of several inputs' watermarks is the rule's.
    pub watermark_policy: Option<WatermarkPolicy>,
    /// A file of states that a new data folder begins with.
    pub initial_state: Option<PathBuf>,
    /// The number of partitions of a new data folder.
    pub partitions: Option<u32>,
    /// The data folder.
    pub data: Option<PathBuf>,
    /// A folder, or `-` for standard output.
    pub output: Option<PathBuf>,
    /// A URL that outputs are posted to, instead of a folder.
    pub webhook: Option<WebhookTable>,
    /// Bytes of outputs that may wait for the sink.
    pub outbox_bytes_max: Option<u64>,
    /// `available-now`, or an interval.
    pub trigger: Option<String>,
    /// Whether to wait for more input.
    pub follow: Option<bool>,
    /// Whether this is a batch query.
    pub batch: Option<bool>,
    /// Records of one batch.
    pub batch_events: Option<usize>,
    /// Bytes of one batch.
    pub batch_bytes: Option<usize>,
    /// Batches before the last one whose state can be read.
    pub history_batches: Option<u64>,
    /// Where the state is kept besides the data folder: `s3://BUCKET/PATH`, or a folder.
    pub checkpoint: Option<String>,
    /// When outputs may leave.
    pub release: Option<ReleaseMode>,
    /// A snapshot of each partition goes to the checkpoint in so many batches.
    pub snapshot_batches: Option<u64>,
    /// Snapshots of each partition that are kept there.
    pub checkpoints_retained: Option<usize>,
    /// Batches that may wait for the checkpoint before the source is held back.
    pub checkpoint_lag_batches: Option<u64>,
    /// Bytes that changed states may take in memory.
    pub overlay_bytes_max: Option<usize>,
    /// Longer records are rejected.
    pub record_bytes_max: Option<usize>,
    /// CSV columns that stay text.
    pub csv_text: Option<Vec<String>>,
    /// The rule's parameters.
    pub parameters: Option<toml::Table>,
    /// What the rule may use.
    pub limits: Option<Limits>,
}

/// Checked settings.
#[derive(Debug)]
pub struct Config {
    /// The component or core module.
    pub component: PathBuf,
    /// The inputs, in the order of their names.
    pub inputs: Vec<Input>,
    /// Which of their watermarks is the rule's, when one was asked for.
    pub watermark_policy: Option<WatermarkPolicy>,
    /// A file of states that a new data folder begins with.
    pub initial_state: Option<PathBuf>,
    /// The number of partitions, when one was asked for.
    pub partitions: Option<u32>,
    /// The data folder; none for one that is thrown away.
    pub data: Option<PathBuf>,
    /// The output folder; none for standard output, or with a webhook.
    pub output: Option<PathBuf>,
    /// Where outputs are posted.
    pub webhook: Option<Webhook>,
    /// Bytes of outputs that may wait for the sink.
    pub outbox_bytes_max: u64,
    /// When batches are made.
    pub trigger: Trigger,
    /// Whether to wait for more input.
    pub follow: bool,
    /// Whether this is a batch query: the rule once over all of the input, without state.
    pub batch: bool,
    /// Records of one batch.
    pub batch_events: usize,
    /// Bytes of one batch.
    pub batch_bytes: usize,
    /// Batches before the last one whose state can be read; 0 for none.
    pub history_batches: u64,
    /// Where the state is kept besides the data folder, and how.
    pub checkpoint: Option<Checkpoint>,
    /// Bytes that changed states may take in memory before they are folded into the tables.
    pub overlay_bytes_max: usize,
    /// Longer records are rejected.
    pub record_bytes_max: usize,
    /// CSV columns that stay text.
    pub csv_text: Vec<String>,
    /// The rule's parameters.
    pub parameters: serde_json::Value,
    /// What the rule may use.
    pub limits: Limits,
}

impl Settings {
    /// Reads a rule file. Unknown keys are an error that lists them all. Paths are relative to the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        let settings = Self::parse(&text).with_context(|| format!("{} is not a rule file", path.display()))?;
        Ok(settings.relative_to(path.parent().unwrap_or(Path::new(""))))
    }

    /// Reads the text of a rule file.
    pub fn parse(text: &str) -> Result<Self> {
        let mut unknown = Vec::new();
        let document = toml::Deserializer::parse(text)?;
        let settings = serde_ignored::deserialize(document, |path| unknown.push(written(&path.to_string())))?;
        ensure!(unknown.is_empty(), "unknown keys: {}", unknown.join(", "));
        Ok(settings)
    }

    /// These settings, with what is absent taken from others.
    ///
    /// Outputs go to one place: a folder here takes the place of a webhook there, and the other way round.
    pub fn or(self, other: Settings) -> Settings {
        let (has_output, has_webhook) = (self.output.is_some(), self.webhook.is_some());
        Settings {
            component: self.component.or(other.component),
            input: self.input.or(other.input),
            inputs: self.inputs.or(other.inputs),
            key: self.key.or(other.key),
            event_time: self.event_time.or(other.event_time),
            event_time_format: self.event_time_format.or(other.event_time_format),
            watermark_delay: self.watermark_delay.or(other.watermark_delay),
            watermark_policy: self.watermark_policy.or(other.watermark_policy),
            initial_state: self.initial_state.or(other.initial_state),
            partitions: self.partitions.or(other.partitions),
            data: self.data.or(other.data),
            output: self.output.or(other.output.filter(|_| !has_webhook)),
            webhook: match (self.webhook, other.webhook.filter(|_| !has_output)) {
                (Some(own), Some(other)) => Some(own.or(other)),
                (own, other) => own.or(other),
            },
            outbox_bytes_max: self.outbox_bytes_max.or(other.outbox_bytes_max),
            trigger: self.trigger.or(other.trigger),
            follow: self.follow.or(other.follow),
            batch: self.batch.or(other.batch),
            batch_events: self.batch_events.or(other.batch_events),
            batch_bytes: self.batch_bytes.or(other.batch_bytes),
            history_batches: self.history_batches.or(other.history_batches),
            checkpoint: self.checkpoint.or(other.checkpoint),
            release: self.release.or(other.release),
            snapshot_batches: self.snapshot_batches.or(other.snapshot_batches),
            checkpoints_retained: self.checkpoints_retained.or(other.checkpoints_retained),
            checkpoint_lag_batches: self.checkpoint_lag_batches.or(other.checkpoint_lag_batches),
            overlay_bytes_max: self.overlay_bytes_max.or(other.overlay_bytes_max),
            record_bytes_max: self.record_bytes_max.or(other.record_bytes_max),
            csv_text: self.csv_text.or(other.csv_text),
            parameters: merge(self.parameters, other.parameters),
            limits: self.limits.or(other.limits),
        }
    }

    /// Checks the settings and fills in the defaults.
    pub fn check(self) -> Result<Config> {
        let follow = self.follow.unwrap_or(false);
        let batch = self.batch.unwrap_or(false);
        if batch {
            ensure!(!follow, "a batch query ends with its input, and follow waits for more: choose one");
            ensure!(
                self.data.is_none(),
                "a batch query keeps no state: leave out the data folder, or run without --batch"
            );
            ensure!(self.trigger.is_none(), "a batch query has no trigger: leave it out, or run without --batch");
        }
        if let Some(bytes) = self.batch_bytes {
            ensure!(bytes <= BATCH_BYTES_MAX, "batch-bytes is {bytes}: at most {BATCH_BYTES_MAX} are possible");
        }
        ensure!(
            self.output.is_none() || self.webhook.is_none(),
            "outputs go to one place: name an output folder or a webhook"
        );
        let outbox_bytes_max = self.outbox_bytes_max.unwrap_or(OUTBOX_BYTES_MAX_DEFAULT);
        ensure!(outbox_bytes_max >= 1, "outbox-bytes-max is 0: it must be at least 1");
        let inputs = self.check_inputs()?;
        let checkpoint = Checkpoint::of(&self)?;
        let partitions = self.partitions;
        if let Some(count) = partitions {
            ensure!((1..=PARTITIONS_MAX).contains(&count), "partitions is {count}: 1 to {PARTITIONS_MAX} are possible");
        }
        let batch_bytes_default = if batch { BATCH_QUERY_BYTES_DEFAULT } else { BATCH_BYTES_DEFAULT };
        Ok(Config {
            component: self.component.context("no component is named")?,
            inputs,
            watermark_policy: self.watermark_policy,
            initial_state: self.initial_state,
            partitions,
            data: self.data,
            output: self.output.filter(|path| path != Path::new("-")),
            webhook: self.webhook.map(WebhookTable::check).transpose()?,
            outbox_bytes_max,
            trigger: trigger(self.trigger.as_deref(), follow)?,
            follow,
            batch,
            batch_events: at_least_one("batch-events", self.batch_events.unwrap_or(BATCH_EVENTS_DEFAULT))?,
            batch_bytes: at_least_one("batch-bytes", self.batch_bytes.unwrap_or(batch_bytes_default))?,
            history_batches: self.history_batches.unwrap_or(HISTORY_BATCHES_DEFAULT),
            checkpoint,
            overlay_bytes_max: self.overlay_bytes_max.unwrap_or(OVERLAY_BYTES_DEFAULT),
            record_bytes_max: self.record_bytes_max.unwrap_or(RECORD_BYTES_MAX_DEFAULT),
            csv_text: self.csv_text.unwrap_or_default(),
            parameters: parameters(self.parameters)?,
            limits: self.limits.unwrap_or_default(),
        })
    }

    fn relative_to(self, folder: &Path) -> Self {
        let join = |text: String| if text == "-" { text } else { folder.join(text).to_string_lossy().into_owned() };
        Settings {
            component: Some(folder.join(self.component.unwrap_or_else(|| COMPONENT_DEFAULT.into()))),
            input: self.input.map(|input| input.map(join)),
            inputs: self.inputs.map(|inputs| {
                inputs
                    .into_iter()
                    .map(|(name, table)| (name, InputTable { path: table.path.map(|path| path.map(join)), ..table }))
                    .collect()
            }),
            initial_state: self.initial_state.map(|path| folder.join(path)),
            data: self.data.map(|path| folder.join(path)),
            checkpoint: self.checkpoint.map(|url| if checkpoint::is_url(&url) { url } else { join(url) }),
            output: self.output.map(|path| if path == Path::new("-") { path } else { folder.join(path) }),
            ..self
        }
    }
}

/// The path of a key as it is written in the file. What is optional in the settings is a step `?` of its own.
fn written(path: &str) -> String {
    path.replace(".?", "")
}

/// Reads a duration such as `10s`, `30m` or `1h 30m`.
pub fn duration(name: &str, text: &str) -> Result<Duration> {
    let parsed: jiff::SignedDuration =
        text.parse().with_context(|| format!("{name} is '{text}', which is no duration: write 10s, 30m or 1h 30m"))?;
    Duration::try_from(parsed).with_context(|| format!("{name} is '{text}', which is negative"))
}

fn trigger(text: Option<&str>, follow: bool) -> Result<Trigger> {
    match text {
        None if follow => Ok(Trigger::Follow),
        None => Ok(Trigger::AvailableNow),
        Some("available-now") => {
            ensure!(!follow, "trigger available-now ends with the input, and follow waits for more: choose one");
            Ok(Trigger::AvailableNow)
        }
        Some(text) => {
            ensure!(follow, "trigger '{text}' needs --follow; without it the trigger is available-now");
            let interval = duration("trigger", text)
                .context("a trigger is available-now, or the interval between batches such as 1s")?;
            Ok(Trigger::Interval(interval))
        }
    }
}

fn at_least_one(name: &str, count: usize) -> Result<usize> {
    ensure!(count >= 1, "{name} is 0: it must be at least 1");
    Ok(count)
}

fn merge(own: Option<toml::Table>, other: Option<toml::Table>) -> Option<toml::Table> {
    match (own, other) {
        (Some(own), Some(mut other)) => {
            other.extend(own);
            Some(other)
        }
        (own, other) => own.or(other),
    }
}

/// A rule's parameters are JSON; TOML's dates become text.
fn parameters(table: Option<toml::Table>) -> Result<serde_json::Value> {
    let table = table.unwrap_or_default();
    serde_json::to_value(table).context("the parameters cannot be written as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_listed_all_at_once() {
        let error =
            Settings::parse("key = '/a'\npartition = 3\n[limits]\nfuel = 1\n").expect_err("two keys are unknown");
        assert_eq!(error.to_string(), "unknown keys: limits.fuel, partition");
    }

    #[test]
    fn flags_win_over_the_file_and_parameters_are_merged() {
        let file =
            Settings::parse("key = '/a'\npartitions = 3\n[parameters]\ngap = 1\nlimit = 2").expect("it is right");
        let flags =
            Settings::parse("partitions = 5\ncomponent = 'x.wasm'\n[parameters]\ngap = 9").expect("it is right");
        let config = flags.or(file).check().expect("it is complete");
        assert_eq!(config.partitions, Some(5));
        assert_eq!(config.parameters, serde_json::json!({"gap": 9, "limit": 2}));
    }

    #[test]
    fn a_flag_for_outputs_takes_the_place_of_what_the_file_says() {
        let file = || {
            Settings::parse("component = 'x'\nkey = '/a'\n[webhook]\nurl = 'http://a'\ntimeout = '3s'")
                .expect("it is right")
        };
        let check = |flags: &str, file: Settings| {
            Settings::parse(flags).expect("it is right").or(file).check().expect("it is complete")
        };
        let folder = check("output = 'o'", file());
        assert!(folder.webhook.is_none() && folder.output.is_some());
        let other = check("[webhook]\nurl = 'http://b'", file()).webhook.expect("it was asked for");
        assert_eq!((other.url.host_str(), other.timeout), (Some("b"), Duration::from_secs(3)));
        let webhook = check(
            "[webhook]\nurl = 'http://b'",
            Settings::parse("component = 'x'\nkey = '/a'\noutput = 'o'").expect("it is right"),
        );
        assert!(webhook.webhook.is_some() && webhook.output.is_none());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, part) in [
            ("component = 'x'", "--key"),
            ("component = 'x'\nkey = 'user'", "user"),
            ("component = 'x'\nkey = '/a'\npartitions = 0", "partitions"),
            ("component = 'x'\nkey = '/a'\nbatch-bytes = 5000000000", "2147483648"),
            ("component = 'x'\nkey = '/a'\noutbox-bytes-max = 0", "outbox-bytes-max"),
            ("component = 'x'\nkey = '/a'\noutput = 'o'\n[webhook]\nurl = 'http://a'", "one place"),
            ("component = 'x'\nkey = '/a'\nwatermark-delay = '10s'", "--event-time"),
            ("component = 'x'\nkey = '/a'\nevent-time = '/t'\nwatermark-delay = 'soon'", "soon"),
            ("component = 'x'\nkey = '/a'\nevent-time = '/t'\nwatermark-delay = '-1s'", "negative"),
            ("component = 'x'\nkey = '/a'\ntrigger = '1s'", "--follow"),
            ("component = 'x'\nkey = '/a'\nevent-time = '/t'\nevent-time-format = 'iso'", "rfc3339"),
        ] {
            let error = Settings::parse(text).expect("it parses").check().expect_err(text);
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }
}
