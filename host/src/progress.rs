//! [`Progress`]: what one batch did, with the names of Spark's `StreamingQueryProgress` and `StateOperatorProgress`.
//!
//! Names, units and the form of times are Spark's. Fields without a value are left out, as there. What is missing:
//!
//! | of Spark | why it is not here |
//! |---|---|
//! | `durationMs.queryPlanning` | nothing is planned for a batch that could take time: the rule was compiled before the first |
//! | `durationMs.commitOffsets` | that a batch is done is written with the next plan, in its `walCommit` |
//! | `durationMs.getOffset` | what `latestOffset` is called for sources of Spark's first interface |
//! | `observedMetrics` | they are expressions of a Spark query over rows on their way; a rule puts out what it counts |
//! | a state store's `customMetrics` | they speak of RocksDB and of HDFS; [`CustomMetrics`] speaks of rules |
//! | `numOutputRows` of -1 | every sink here knows what it was given |
//! | records of triggers that found nothing | a trigger that finds nothing makes no batch |

mod event_times;
mod times;

pub use event_times::EventTimes;
pub use times::{BatchTimes, DurationMs};

use crate::event::{BatchId, Millis, OffsetRange};
use crate::partition::PartitionReport;
use crate::plan::Plan;
use serde::Serialize;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// What one batch did.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The id of the data folder: stable over restarts.
    pub id: String,
    /// New for each start of the host.
    pub run_id: String,
    /// The rule's name.
    pub name: String,
    /// When the batch was triggered: the host began to read for it.
    pub timestamp: String,
    /// The batch.
    pub batch_id: BatchId,
    /// From the trigger to the end of the delivery, in milliseconds.
    pub batch_duration: u64,
    /// Records read from all sources, rejected ones included.
    pub num_input_rows: u64,
    /// These, per second since the trigger of the batch before; not for the first batch of a run. Spark counts from the
    /// last trigger, also when it found nothing, which says little about a quiet source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_rows_per_second: Option<f64>,
    /// These, per second of the batch's duration.
    pub processed_rows_per_second: f64,
    /// Milliseconds of each step.
    pub duration_ms: DurationMs,
    /// Event times; absent when the input has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_time: Option<EventTimeProgress>,
    /// The one stateful operator.
    pub state_operators: Vec<StateOperatorProgress>,
    /// What was read, one for each input.
    pub sources: Vec<SourceProgress>,
    /// What was written.
    pub sink: SinkProgress,
}

/// Event times of a batch, late events included: RFC 3339 in UTC.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventTimeProgress {
    /// The average of this batch; like the next two only when it has events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<String>,
    /// The latest of this batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// The earliest of this batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// The watermark that the batch used, which its own events have not moved.
    pub watermark: String,
}

/// What the operator is called in Spark.
pub const OPERATOR_NAME: &str = "flatMapGroupsWithState";

/// What a batch did to the state. Counts and times are sums over the partitions, as in Spark: partitions that work at the
/// same time may together take longer than the batch.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOperatorProgress {
    /// [`OPERATOR_NAME`].
    pub operator_name: &'static str,
    /// Keys with state or a timeout.
    pub num_rows_total: u64,
    /// Rows written.
    pub num_rows_updated: u64,
    /// Time in the rule, for events and for timeouts.
    pub all_updates_time_ms: u64,
    /// Rows deleted.
    pub num_rows_removed: u64,
    /// Of the time in the rule, that for timeouts: Spark's meaning for this operator.
    pub all_removals_time_ms: u64,
    /// Time in the commits.
    pub commit_time_ms: u64,
    /// Bytes of changed states in memory.
    pub memory_used_bytes: u64,
    /// Late events that were dropped.
    pub num_rows_dropped_by_watermark: u64,
    /// Partitions.
    pub num_shuffle_partitions: u32,
    /// State files: one for each partition.
    pub num_state_store_instances: u32,
    /// What Spark has no name for.
    pub custom_metrics: CustomMetrics,
}

/// What Spark has no name for.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMetrics {
    /// Keys that the rule was called for.
    pub num_groups: u64,
    /// Of these, for a timeout.
    pub num_timeouts: u64,
    /// Calls into the rule.
    pub num_calls: u64,
    /// Fuel of all groups.
    pub fuel: u64,
    /// Groups and records that went to the dead letters.
    pub num_dead_letters: u64,
    /// Bytes of the largest instance.
    pub instance_bytes: u64,
}

/// Offsets by file: bytes from its beginning, of what is in it when it is decompressed. An object like that of Spark's
/// Kafka source, with the files that the batch read; empty in a batch for timeouts alone.
pub type Offsets = BTreeMap<String, u64>;

/// What a batch read from one input.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceProgress {
    /// The input's name.
    pub name: String,
    /// The source.
    pub description: String,
    /// Where reading began.
    pub start_offset: Offsets,
    /// Where it ended.
    pub end_offset: Offsets,
    /// The last offset that there is, null while that is not known: as for Spark's files. A compressed file tells its length
    /// only when it has been read; how much is left is in `metrics`.
    pub latest_offset: Option<Offsets>,
    /// Records read, rejected ones included.
    pub num_input_rows: u64,
    /// These, per second since the trigger of the batch before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_rows_per_second: Option<f64>,
    /// These, per second of the batch's duration.
    pub processed_rows_per_second: f64,
    /// `bytesRead` of `bytesTotal`, as they are stored, when the batch was committed: texts, as all metrics of Spark's
    /// sources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<&'static str, String>,
}

/// What a batch wrote.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkProgress {
    /// The sink.
    pub description: String,
    /// Outputs.
    pub num_output_rows: u64,
    /// `bytesWritten`: the length of the outputs, as text.
    pub metrics: BTreeMap<&'static str, String>,
}

/// What is known of a batch besides its partitions' reports.
pub struct BatchRun<'a> {
    /// The id of the data folder.
    pub id: &'a str,
    /// The id of this start of the host.
    pub run_id: &'a str,
    /// The rule's name.
    pub rule: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// When the batch was triggered.
    pub triggered_at: Millis,
    /// When the batch before it was; none for the first of a run.
    pub triggered_before: Option<Millis>,
    /// The times of its events.
    pub event_times: EventTimes,
    /// The sink.
    pub sink: String,
    /// Bytes of outputs.
    pub output_bytes: u64,
}

/// What a batch read from one input.
pub struct SourceRun<'a> {
    /// The input's name.
    pub name: &'a str,
    /// The source.
    pub description: String,
    /// What of the plan's ranges belongs to it.
    pub ranges: Vec<&'a OffsetRange>,
    /// Records read, rejected ones included.
    pub rows: u64,
    /// How far reading has come, in bytes as they are stored: (read, total).
    pub bytes: Option<(u64, u64)>,
}

impl Progress {
    /// Sums up a batch that is committed, from the reports of all partitions. How long it took is told when it is delivered.
    pub fn new(run: BatchRun<'_>, sources: &[SourceRun<'_>], reports: &[PartitionReport]) -> Self {
        let plan = run.plan;
        let rows = sources.iter().map(|source| source.rows).sum();
        let rates = Rates::new(&run);
        Progress {
            id: run.id.to_owned(),
            run_id: run.run_id.to_owned(),
            name: run.rule.to_owned(),
            timestamp: run.triggered_at.to_string(),
            batch_id: plan.batch,
            batch_duration: 0,
            num_input_rows: rows,
            input_rows_per_second: rates.input(rows),
            processed_rows_per_second: 0.0,
            duration_ms: DurationMs::default(),
            // A batch query has no watermark.
            event_time: (plan.watermark.filter(|_| !plan.batch_query))
                .map(|watermark| EventTimeProgress::new(watermark, &run.event_times)),
            state_operators: vec![StateOperatorProgress::new(reports)],
            sources: sources.iter().map(|source| SourceProgress::new(source, &rates)).collect(),
            sink: SinkProgress {
                description: run.sink,
                num_output_rows: reports.iter().map(|report| report.outputs.outputs).sum(),
                metrics: BTreeMap::from([("bytesWritten", run.output_bytes.to_string())]),
            },
        }
    }
}

impl Progress {
    /// The batch is delivered, and its steps took so long.
    pub fn delivered(&mut self, duration_ms: DurationMs) {
        // A batch of less than a millisecond counts as one of a whole, as in Spark.
        let batch_ms = duration_ms.trigger_execution.max(1);
        self.batch_duration = duration_ms.trigger_execution;
        self.duration_ms = duration_ms;
        self.processed_rows_per_second = per_second(self.num_input_rows, batch_ms);
        for source in &mut self.sources {
            source.processed_rows_per_second = per_second(source.num_input_rows, batch_ms);
        }
    }
}

impl EventTimeProgress {
    fn new(watermark: Millis, times: &EventTimes) -> Self {
        let text = |time: Millis| time.to_string();
        EventTimeProgress {
            avg: times.avg().map(text),
            max: times.max().map(text),
            min: times.min().map(text),
            watermark: text(watermark),
        }
    }
}

impl StateOperatorProgress {
    fn new(reports: &[PartitionReport]) -> Self {
        let partitions = reports.len() as u32;
        let sum = |of: fn(&PartitionReport) -> u64| reports.iter().map(of).sum::<u64>();
        StateOperatorProgress {
            operator_name: OPERATOR_NAME,
            num_rows_total: sum(|report| report.rows_total),
            num_rows_updated: sum(|report| report.rows_updated),
            all_updates_time_ms: sum(|report| report.call_ms),
            num_rows_removed: sum(|report| report.rows_removed),
            all_removals_time_ms: sum(|report| report.timeout_ms),
            commit_time_ms: sum(|report| report.commit_ms),
            memory_used_bytes: sum(|report| report.overlay_bytes),
            num_rows_dropped_by_watermark: sum(|report| report.rows_dropped),
            num_shuffle_partitions: partitions,
            num_state_store_instances: partitions,
            custom_metrics: CustomMetrics {
                num_groups: sum(|report| report.groups),
                num_timeouts: sum(|report| report.timeouts),
                num_calls: sum(|report| report.calls),
                fuel: sum(|report| report.fuel),
                num_dead_letters: sum(|report| report.dead_letters),
                instance_bytes: reports.iter().map(|report| report.instance_bytes).max().unwrap_or(0),
            },
        }
    }
}

impl SourceProgress {
    fn new(source: &SourceRun<'_>, rates: &Rates) -> Self {
        // In a batch query a file may have several ranges, in order.
        let mut start_offset = BTreeMap::new();
        let mut end_offset = BTreeMap::new();
        for range in &source.ranges {
            start_offset.entry(range.file.clone()).or_insert(range.from.offset);
            end_offset.insert(range.file.clone(), range.to.offset);
        }
        let metrics = source.bytes.map(|(read, total)| [("bytesRead", read), ("bytesTotal", total)]);
        SourceProgress {
            name: source.name.to_owned(),
            description: source.description.clone(),
            start_offset,
            end_offset,
            latest_offset: None,
            num_input_rows: source.rows,
            input_rows_per_second: rates.input(source.rows),
            processed_rows_per_second: 0.0,
            metrics: metrics.into_iter().flatten().map(|(name, bytes)| (name, bytes.to_string())).collect(),
        }
    }
}

/// What rows are divided by.
struct Rates {
    /// None when no time is known to have passed: the quotient would be no number, and Spark leaves it out as well.
    since_trigger_before_ms: Option<u64>,
}

impl Rates {
    fn new(run: &BatchRun<'_>) -> Self {
        let since = run.triggered_before.map(|before| run.triggered_at.0.saturating_sub(before.0));
        Rates { since_trigger_before_ms: since.and_then(|ms| u64::try_from(ms).ok()).filter(|&ms| ms > 0) }
    }

    fn input(&self, rows: u64) -> Option<f64> {
        self.since_trigger_before_ms.map(|ms| per_second(rows, ms))
    }
}

/// With one decimal: more would be noise.
fn per_second(rows: u64, ms: u64) -> f64 {
    (rows as f64 * 10_000.0 / ms as f64).round() / 10.0
}

/// An id that no other start of a host has. Nothing that a rule sees is made from it.
pub fn new_run_id() -> String {
    // The standard library keys each of its hashers with randomness of the system's.
    let [first, second] = [0_u8, 1].map(|half| RandomState::new().hash_one(half));
    format!("{first:016x}{second:016x}")
}
