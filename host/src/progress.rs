//! [`Progress`]: what one batch did, with the names of Spark's `StreamingQueryProgress` and `StateOperatorProgress`.

use crate::event::{BatchId, Millis, OffsetRange};
use crate::partition::PartitionReport;
use crate::plan::Plan;
use serde::Serialize;
use std::collections::BTreeMap;

/// What one batch did.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The id of the data folder: stable over restarts.
    pub id: String,
    /// The rule's name.
    pub name: String,
    /// When the batch was planned, RFC 3339.
    pub timestamp: String,
    /// The batch.
    pub batch_id: BatchId,
    /// From reading to the last commit, in milliseconds.
    pub batch_duration: u64,
    /// Records read, rejected ones included.
    pub num_input_rows: u64,
    /// Records per second of the batch's duration.
    pub processed_rows_per_second: f64,
    /// Milliseconds of each step. `getBatch` is reading and keying, `walCommit` the plan, `addBatch` the slowest partition.
    pub duration_ms: BTreeMap<&'static str, u64>,
    /// Event times; without an event time, empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_time: Option<EventTimeProgress>,
    /// The one stateful operator.
    pub state_operators: Vec<StateOperatorProgress>,
    /// What was read.
    pub sources: Vec<SourceProgress>,
    /// What was written.
    pub sink: SinkProgress,
}

/// Event times of a batch, RFC 3339.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventTimeProgress {
    /// The watermark that the batch used.
    pub watermark: String,
    /// The greatest event time so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// What the operator is called in Spark.
pub const OPERATOR_NAME: &str = "flatMapGroupsWithState";

/// What a batch did to the state, summed over partitions.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOperatorProgress {
    /// [`OPERATOR_NAME`].
    pub operator_name: &'static str,
    /// Keys with state or a timeout.
    pub num_rows_total: u64,
    /// Rows written.
    pub num_rows_updated: u64,
    /// Time in the rule, of the slowest partition.
    pub all_updates_time_ms: u64,
    /// Rows deleted.
    pub num_rows_removed: u64,
    /// Time in the commit, of the slowest partition.
    pub commit_time_ms: u64,
    /// Bytes of changed states in memory.
    pub memory_used_bytes: u64,
    /// Late events that were dropped.
    pub num_rows_dropped_by_watermark: u64,
    /// Partitions.
    pub num_shuffle_partitions: u32,
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

/// What a batch read.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceProgress {
    /// The source.
    pub description: String,
    /// Offset ranges by file.
    pub offsets: Vec<OffsetRange>,
    /// Records read, rejected ones included.
    pub num_input_rows: u64,
}

/// What a batch wrote.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkProgress {
    /// The sink.
    pub description: String,
    /// Outputs.
    pub num_output_rows: u64,
}

/// What is known of a batch besides its partitions' reports.
pub struct BatchRun<'a> {
    /// The id of the data folder.
    pub id: &'a str,
    /// The rule's name.
    pub rule: &'a str,
    /// How many partitions there are.
    pub partitions: u32,
    /// The plan.
    pub plan: &'a Plan,
    /// Records read, rejected ones included.
    pub rows: u64,
    /// The source.
    pub source: String,
    /// The sink.
    pub sink: String,
    /// Time for reading and keying.
    pub read_ms: u64,
    /// Time for the plan.
    pub plan_ms: u64,
    /// From reading to the last delivery.
    pub duration_ms: u64,
}

impl Progress {
    /// Sums up a batch. Counts are sums over the partitions, times those of the slowest one.
    pub fn new(run: BatchRun<'_>, reports: &[PartitionReport]) -> Self {
        let sum = |of: fn(&PartitionReport) -> u64| reports.iter().map(of).sum::<u64>();
        let max = |of: fn(&PartitionReport) -> u64| reports.iter().map(of).max().unwrap_or(0);
        let plan = run.plan;
        Progress {
            id: run.id.to_owned(),
            name: run.rule.to_owned(),
            timestamp: plan.time.to_string(),
            batch_id: plan.batch,
            batch_duration: run.duration_ms,
            num_input_rows: run.rows,
            processed_rows_per_second: (run.rows as f64 * 1000.0 / run.duration_ms.max(1) as f64).round(),
            duration_ms: BTreeMap::from([
                ("getBatch", run.read_ms),
                ("walCommit", run.plan_ms),
                ("addBatch", max(|report| report.call_ms + report.commit_ms)),
                ("triggerExecution", run.duration_ms),
            ]),
            event_time: plan.watermark.map(|watermark| EventTimeProgress::new(watermark, plan.event_time_max)),
            state_operators: vec![StateOperatorProgress {
                operator_name: OPERATOR_NAME,
                num_rows_total: sum(|report| report.rows_total),
                num_rows_updated: sum(|report| report.rows_updated),
                all_updates_time_ms: max(|report| report.call_ms),
                num_rows_removed: sum(|report| report.rows_removed),
                commit_time_ms: max(|report| report.commit_ms),
                memory_used_bytes: sum(|report| report.overlay_bytes),
                num_rows_dropped_by_watermark: sum(|report| report.rows_dropped),
                num_shuffle_partitions: run.partitions,
                custom_metrics: CustomMetrics {
                    num_groups: sum(|report| report.groups),
                    num_timeouts: sum(|report| report.timeouts),
                    num_calls: sum(|report| report.calls),
                    fuel: sum(|report| report.fuel),
                    num_dead_letters: sum(|report| report.dead_letters),
                    instance_bytes: max(|report| report.instance_bytes),
                },
            }],
            sources: vec![SourceProgress {
                description: run.source,
                offsets: plan.ranges.clone(),
                num_input_rows: run.rows,
            }],
            sink: SinkProgress { description: run.sink, num_output_rows: sum(|report| report.outputs.outputs) },
        }
    }
}

impl EventTimeProgress {
    fn new(watermark: Millis, max: Option<Millis>) -> Self {
        EventTimeProgress { watermark: watermark.to_string(), max: max.map(|max| max.to_string()) }
    }
}
