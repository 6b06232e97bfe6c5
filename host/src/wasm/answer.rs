//! [`Answer`]: what a rule decided, checked. Nothing that a rule returns is used before it went through here.

use super::error::{CallError, Reason};
use super::store::LogLine;
use crate::description::{Form, TimeoutKind};
use crate::event::Millis;
use crate::group::{BatchContext, StateChange, Timeout, TimeoutClock, item, start_of};
use crate::limits::Limits;
use std::collections::BTreeMap;

/// The columns of an answer as a rule returned them: lengths, ends and numbers may be anything.
#[derive(Debug, Clone, Default)]
pub struct AnswerColumns {
    /// 0 keep, 1 update, 2 remove, 3 failed; one for each group.
    pub verdicts: Vec<u8>,
    /// New states.
    pub states: Vec<u8>,
    /// One end for each group.
    pub state_ends: Vec<u32>,
    /// 0 none, 1 processing time, 2 event time; one for each group.
    pub timeout_clocks: Vec<u8>,
    /// One for each group.
    pub timeouts_ms: Vec<i64>,
    /// Outputs.
    pub outputs: Vec<u8>,
    /// One end for each output.
    pub output_ends: Vec<u32>,
    /// One end for each group, counted in outputs.
    pub group_output_ends: Vec<u32>,
    /// Error texts.
    pub errors: Vec<u8>,
    /// One end for each group.
    pub error_ends: Vec<u32>,
}

/// A checked answer. Groups that broke a rule of their own failed; the others can be used.
#[derive(Debug)]
pub struct Answer {
    columns: AnswerColumns,
    failed: BTreeMap<usize, CallError>,
    /// Fuel of each group; shorter than the groups when the rule does not say where it is.
    pub(super) fuel: Vec<u64>,
    pub(super) log: Vec<LogLine>,
    pub(super) log_lines_dropped: u64,
}

/// What a rule decided for one group.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// What becomes of the state.
    pub change: StateChange<'a>,
    /// The new timeout.
    pub timeout: Option<Timeout>,
    /// The outputs, one after another.
    pub outputs: &'a [u8],
    /// End of each output, counted from `outputs_start`.
    pub output_ends: &'a [u32],
    /// What the ends are counted from.
    pub outputs_start: u32,
}

/// What an answer is checked against.
pub struct AnswerRules<'a> {
    /// The groups of the call.
    pub groups: usize,
    /// Their batch.
    pub context: &'a BatchContext,
    /// What the rule may use.
    pub limits: &'a Limits,
    /// Which timeouts it may set.
    pub timeout: TimeoutKind,
    /// How many outputs each group has.
    pub form: Form,
}

/// The longest error text that is kept.
const ERROR_BYTES_MAX: usize = 1024;
/// The last millisecond of the year 9999: later timeouts are a fault in the rule, not a wish.
const TIMEOUT_MS_MAX: i64 = 253_402_300_799_999;

const VERDICT_UPDATE: u8 = 1;
const VERDICT_REMOVE: u8 = 2;
const VERDICT_FAILED: u8 = 3;

impl Answer {
    /// Checks what a rule returned. An error means that the columns do not fit together, so that no group can be told
    /// from another; what concerns one group alone fails that group.
    pub fn check(columns: AnswerColumns, rules: &AnswerRules<'_>) -> Result<Answer, CallError> {
        check_shape(&columns, rules.groups)?;
        let mut failed = BTreeMap::new();
        for group in 0..rules.groups {
            if let Err(error) = check_group(&columns, group, rules) {
                failed.insert(group, CallError { group: Some(group), ..error });
            }
        }
        Ok(Answer { columns, failed, fuel: Vec::new(), log: Vec::new(), log_lines_dropped: 0 })
    }

    /// What the rule decided for a group, or why it failed.
    pub fn outcome(&self, group: usize) -> Result<Outcome<'_>, &CallError> {
        if let Some(error) = self.failed.get(&group) {
            return Err(error);
        }
        let columns = &self.columns;
        let change = match columns.verdicts[group] {
            VERDICT_UPDATE => StateChange::Update(item(&columns.states, &columns.state_ends, group)),
            VERDICT_REMOVE => StateChange::Remove,
            _ => StateChange::Keep,
        };
        let timeout = TimeoutClock::from_number(columns.timeout_clocks[group])
            .map(|clock| Timeout { clock, at: Millis(columns.timeouts_ms[group]) });
        let (first, last) = output_range(columns, group);
        let outputs_start = start_of(&columns.output_ends, first);
        Ok(Outcome {
            change,
            timeout,
            outputs: outputs_of(columns, group),
            output_ends: &columns.output_ends[first..last],
            outputs_start,
        })
    }

    /// The fuel that a group used, when the rule says where it is.
    pub fn fuel_of(&self, group: usize) -> u64 {
        self.fuel.get(group).copied().unwrap_or(0)
    }

    /// The lines that the rule wrote to its log.
    pub fn log(&self) -> &[LogLine] {
        &self.log
    }

    /// How many further lines were dropped.
    pub fn log_lines_dropped(&self) -> u64 {
        self.log_lines_dropped
    }
}

fn malformed(message: String) -> CallError {
    CallError::new(Reason::MalformedAnswer, message)
}

/// Lengths and ends: whatever decides which bytes belong to which group.
fn check_shape(columns: &AnswerColumns, groups: usize) -> Result<(), CallError> {
    let per_group = [
        ("verdicts", columns.verdicts.len()),
        ("state-ends", columns.state_ends.len()),
        ("timeout-clocks", columns.timeout_clocks.len()),
        ("timeouts-ms", columns.timeouts_ms.len()),
        ("group-output-ends", columns.group_output_ends.len()),
        ("error-ends", columns.error_ends.len()),
    ];
    for (name, length) in per_group {
        if length != groups {
            return Err(malformed(format!("{name} has {length} items for {groups} groups")));
        }
    }
    check_ends("state-ends", &columns.state_ends, columns.states.len())?;
    check_ends("output-ends", &columns.output_ends, columns.outputs.len())?;
    check_ends("group-output-ends", &columns.group_output_ends, columns.output_ends.len())?;
    check_ends("error-ends", &columns.error_ends, columns.errors.len())
}

fn check_ends(name: &str, ends: &[u32], length: usize) -> Result<(), CallError> {
    if let Some(at) = ends.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(malformed(format!("{name} decreases from {} to {} at item {}", ends[at], ends[at + 1], at + 1)));
    }
    let last = ends.last().map_or(0, |&end| end as usize);
    if last != length {
        return Err(malformed(format!("{name} ends at {last}, its column has {length} items")));
    }
    Ok(())
}

/// What concerns one group alone.
fn check_group(columns: &AnswerColumns, group: usize, rules: &AnswerRules<'_>) -> Result<(), CallError> {
    let verdict = columns.verdicts[group];
    let state = item(&columns.states, &columns.state_ends, group);
    match verdict {
        VERDICT_FAILED => {
            return Err(CallError::new(
                Reason::RuleError,
                shortened(item(&columns.errors, &columns.error_ends, group)),
            ));
        }
        0..VERDICT_FAILED => {}
        _ => return Err(malformed(format!("verdict {verdict} is unknown"))),
    }
    if verdict != VERDICT_UPDATE && !state.is_empty() {
        return Err(malformed(format!(
            "{} bytes of state come with verdict {verdict}, which writes none",
            state.len()
        )));
    }
    if state.len() as u64 > rules.limits.state_bytes_max {
        let message = format!(
            "the state has {} bytes, the limit is {}: keep less in it, or raise state-bytes-max",
            state.len(),
            rules.limits.state_bytes_max
        );
        return Err(CallError::new(Reason::StateLimit, message));
    }
    check_timeout(columns, group, rules)?;
    check_form(columns, group, rules.form)?;
    check_outputs(columns, group, rules.limits)
}

fn check_timeout(columns: &AnswerColumns, group: usize, rules: &AnswerRules<'_>) -> Result<(), CallError> {
    let number = columns.timeout_clocks[group];
    if number == 0 {
        return Ok(());
    }
    let Some(clock) = TimeoutClock::from_number(number) else {
        return Err(malformed(format!("timeout clock {number} is unknown")));
    };
    let at_ms = columns.timeouts_ms[group];
    let invalid = |message: String| Err(CallError::new(Reason::InvalidTimeout, message));
    let (allowed, earliest_ms, name) = match clock {
        TimeoutClock::ProcessingTime => {
            (rules.timeout.allows_processing_time(), rules.context.time.0, "processing time")
        }
        TimeoutClock::EventTime => {
            (rules.timeout.allows_event_time(), rules.context.watermark.map_or(0, |at| at.0), "event time")
        }
    };
    if clock == TimeoutClock::EventTime && rules.context.watermark.is_none() && !rules.context.batch_query {
        return invalid(
            "a timeout in event time was set, and the input has none: name its field with --event-time".to_owned(),
        );
    }
    if !allowed {
        return invalid(format!("a timeout in {name} was set, which the rule's description rules out"));
    }
    if at_ms < earliest_ms {
        return invalid(format!("the timeout {at_ms} in {name} is before {earliest_ms}, where that clock stands"));
    }
    if at_ms > TIMEOUT_MS_MAX {
        return invalid(format!("the timeout {at_ms} in {name} is after the year 9999"));
    }
    Ok(())
}

fn check_form(columns: &AnswerColumns, group: usize, form: Form) -> Result<(), CallError> {
    let (first, last) = output_range(columns, group);
    match (form, last - first) {
        (Form::FlatMap, _) | (Form::Map, 1) => Ok(()),
        (Form::Map, found) => {
            Err(malformed(format!("the group has {found} outputs, and a rule of the form map gives exactly one")))
        }
    }
}

fn check_outputs(columns: &AnswerColumns, group: usize, limits: &Limits) -> Result<(), CallError> {
    let (first, last) = output_range(columns, group);
    let bytes = outputs_of(columns, group).len() as u64;
    let over = |what: &str, found: u64, limit: u64, name: &str| {
        let message = format!("the group has {found} {what}, the limit is {limit}: write less, or raise {name}");
        Err(CallError::new(Reason::OutputLimit, message))
    };
    if (last - first) as u64 > limits.outputs_max {
        return over("outputs", (last - first) as u64, limits.outputs_max, "outputs-max");
    }
    if bytes > limits.output_bytes_max {
        return over("bytes of outputs", bytes, limits.output_bytes_max, "output-bytes-max");
    }
    for output in first..last {
        let text = item(&columns.outputs, &columns.output_ends, output);
        let number = output - first;
        if memchr::memchr2(b'\n', b'\r', text).is_some() {
            return Err(malformed(format!("output {number} of the group contains a line break")));
        }
        let Ok(text) = simdutf8::basic::from_utf8(text) else {
            return Err(malformed(format!("output {number} of the group is not UTF-8")));
        };
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
            return Err(malformed(format!("output {number} of the group is not JSON: {error}")));
        }
    }
    Ok(())
}

/// A text of the rule's, cut to what is kept of it.
pub(super) fn shortened(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(ERROR_BYTES_MAX)]).into_owned()
}

fn output_range(columns: &AnswerColumns, group: usize) -> (usize, usize) {
    (start_of(&columns.group_output_ends, group) as usize, columns.group_output_ends[group] as usize)
}

fn outputs_of(columns: &AnswerColumns, group: usize) -> &[u8] {
    let (first, last) = output_range(columns, group);
    if first == last {
        return &[];
    }
    &columns.outputs[start_of(&columns.output_ends, first) as usize..columns.output_ends[last - 1] as usize]
}
