//! What must hold for every answer of a rule, however malformed: shared by the property tests and the fuzzer.

use keyfold::description::{Form, TimeoutKind};
use keyfold::event::{BatchId, Millis, PartitionId};
use keyfold::group::{BatchContext, StateChange, TimeoutClock};
use keyfold::limits::Limits;
use keyfold::wasm::answer::{AnswerColumns, AnswerRules, Outcome};
use keyfold::wasm::{Answer, Reason};
use serde_json::value::RawValue;

/// Where the clocks of the batch stand, which no timeout may lie before.
const TIME_MS: i64 = 2000;
const WATERMARK_MS: i64 = 1000;

/// So small that random answers go over them.
const STATE_BYTES_MAX: u64 = 6;
const OUTPUTS_MAX: u64 = 3;
const OUTPUT_BYTES_MAX: u64 = 24;

/// One group of an answer: a row of the columns.
#[derive(Debug, Clone)]
pub struct Row {
    pub verdict: u8,
    pub state: Vec<u8>,
    pub timeout_clock: u8,
    pub timeout_ms: i64,
    pub outputs: Vec<Vec<u8>>,
    pub error: Vec<u8>,
}

/// The columns of these groups, whose lengths and ends fit together.
pub fn columns_of(rows: &[Row]) -> AnswerColumns {
    let mut columns = AnswerColumns::default();
    for row in rows {
        columns.verdicts.push(row.verdict);
        columns.states.extend(&row.state);
        columns.state_ends.push(columns.states.len() as u32);
        columns.timeout_clocks.push(row.timeout_clock);
        columns.timeouts_ms.push(row.timeout_ms);
        for output in &row.outputs {
            columns.outputs.extend(output);
            columns.output_ends.push(columns.outputs.len() as u32);
        }
        columns.group_output_ends.push(columns.output_ends.len() as u32);
        columns.errors.extend(&row.error);
        columns.error_ends.push(columns.errors.len() as u32);
    }
    columns
}

/// Changes one place in one column.
pub fn mutate(columns: &mut AnswerColumns, column: u8, place: usize, value: u32) {
    match column % 10 {
        0 => change(&mut columns.verdicts, place, value as u8),
        1 => change(&mut columns.states, place, value as u8),
        2 => change(&mut columns.state_ends, place, value),
        3 => change(&mut columns.timeout_clocks, place, value as u8),
        4 => change(&mut columns.timeouts_ms, place, i64::from(value)),
        5 => change(&mut columns.outputs, place, value as u8),
        6 => change(&mut columns.output_ends, place, value),
        7 => change(&mut columns.group_output_ends, place, value),
        8 => change(&mut columns.errors, place, value as u8),
        _ => change(&mut columns.error_ends, place, value),
    }
}

/// Replaces the item at a place, adds one, or takes the last away.
fn change<T>(column: &mut Vec<T>, place: usize, value: T) {
    let length = column.len();
    match place % (length + 2) {
        place if place < length => column[place] = value,
        place if place == length => column.push(value),
        _ => {
            column.pop();
        }
    }
}

/// Checks an answer for this many groups, and reads all that can be read of it. Returns the outcome of every group, true
/// for one that can be used, or none when the whole answer is refused.
pub fn check(columns: &AnswerColumns, groups: usize, timeout: TimeoutKind) -> Option<Vec<bool>> {
    let context = BatchContext {
        partition: PartitionId(0),
        batch: BatchId(7),
        time: Millis(TIME_MS),
        watermark: Some(Millis(WATERMARK_MS)),
        seed: [0; 16],
        batch_query: false,
    };
    let limits = Limits {
        state_bytes_max: STATE_BYTES_MAX,
        outputs_max: OUTPUTS_MAX,
        output_bytes_max: OUTPUT_BYTES_MAX,
        ..Limits::default()
    };
    let rules = AnswerRules { groups, context: &context, limits: &limits, timeout, form: Form::FlatMap };
    let answer = match Answer::check(columns.clone(), &rules) {
        Ok(answer) => answer,
        Err(error) => {
            assert!(!fits(columns, groups), "refused, and its columns fit together: {error}");
            assert_eq!((error.reason, error.group), (Reason::MalformedAnswer, None), "{error}");
            return None;
        }
    };
    assert!(fits(columns, groups), "accepted, and its columns do not fit together");
    let usable = |group| match answer.outcome(group) {
        Ok(outcome) => {
            check_outcome(columns, group, &outcome, timeout);
            true
        }
        Err(error) => {
            assert_eq!(error.group, Some(group), "{error}");
            assert_eq!(error.reason == Reason::RuleError, columns.verdicts[group] == 3, "{error}");
            false
        }
    };
    Some((0..groups).map(usable).collect())
}

/// Whether it is clear which bytes belong to which group.
fn fits(columns: &AnswerColumns, groups: usize) -> bool {
    let ends_fit =
        |ends: &[u32], length: usize| ends.is_sorted() && ends.last().map_or(0, |&end| end as usize) == length;
    let lengths = [
        columns.verdicts.len(),
        columns.state_ends.len(),
        columns.timeout_clocks.len(),
        columns.timeouts_ms.len(),
        columns.group_output_ends.len(),
        columns.error_ends.len(),
    ];
    lengths.iter().all(|&length| length == groups)
        && ends_fit(&columns.state_ends, columns.states.len())
        && ends_fit(&columns.output_ends, columns.outputs.len())
        && ends_fit(&columns.group_output_ends, columns.output_ends.len())
        && ends_fit(&columns.error_ends, columns.errors.len())
}

fn check_outcome(columns: &AnswerColumns, group: usize, outcome: &Outcome<'_>, timeout: TimeoutKind) {
    let state = slice(&columns.states, &columns.state_ends, group);
    let change = match columns.verdicts[group] {
        0 => StateChange::Keep,
        1 => StateChange::Update(state),
        2 => StateChange::Remove,
        other => panic!("verdict {other} was accepted"),
    };
    assert_eq!(outcome.change, change);
    assert!(state.len() as u64 <= STATE_BYTES_MAX);
    assert!(matches!(change, StateChange::Update(_)) || state.is_empty());

    let found = outcome.timeout.map_or((0, 0), |timeout| (timeout.clock as u8, timeout.at.0));
    let expected = if columns.timeout_clocks[group] == 0 { 0 } else { columns.timeouts_ms[group] };
    assert_eq!(found, (columns.timeout_clocks[group], expected));
    match outcome.timeout.map(|timeout| (timeout.clock, timeout.at.0)) {
        Some((TimeoutClock::ProcessingTime, at_ms)) => assert!(timeout.allows_processing_time() && at_ms >= TIME_MS),
        Some((TimeoutClock::EventTime, at_ms)) => assert!(timeout.allows_event_time() && at_ms >= WATERMARK_MS),
        None => {}
    }

    let first = if group == 0 { 0 } else { columns.group_output_ends[group - 1] as usize };
    let last = columns.group_output_ends[group] as usize;
    assert_eq!(outcome.output_ends, &columns.output_ends[first..last]);
    assert!(outcome.output_ends.len() as u64 <= OUTPUTS_MAX && outcome.outputs.len() as u64 <= OUTPUT_BYTES_MAX);
    let mut start = 0;
    for (number, end) in (first..last).zip(outcome.output_ends) {
        let end = (end - outcome.outputs_start) as usize;
        let output = &outcome.outputs[start..end];
        assert_eq!(output, slice(&columns.outputs, &columns.output_ends, number));
        let text = std::str::from_utf8(output).expect("an output that was accepted is UTF-8");
        // JSON, and not more: a number may be larger than any float.
        assert!(serde_json::from_str::<&RawValue>(text).is_ok() && !text.contains(['\n', '\r']), "{text:?}");
        start = end;
    }
    assert_eq!(start, outcome.outputs.len());
}

fn slice<'b>(bytes: &'b [u8], ends: &[u32], number: usize) -> &'b [u8] {
    let start = if number == 0 { 0 } else { ends[number - 1] as usize };
    &bytes[start..ends[number] as usize]
}
