//! Answers of a rule, made by the fuzzer: none may harm the host, and what is accepted must be what the columns say.

#![no_main]

#[path = "../../tests/it/support/answers.rs"]
mod answers;

use answers::{Row, check, columns_of, mutate};
use arbitrary::Arbitrary;
use keyfold::description::TimeoutKind;
use keyfold::limits::Limits;
use keyfold::wasm::Migrated;
use keyfold::wasm::answer::AnswerColumns;
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    timeout: Timeout,
    answer: Answer,
}

#[derive(Debug, Arbitrary)]
enum Timeout {
    None,
    ProcessingTime,
    EventTime,
    Either,
}

#[derive(Debug, Arbitrary)]
enum Answer {
    /// Columns that fit together, with some changes; by chance alone they hardly ever do.
    Changed(Vec<Group>, Vec<(u8, u8, u32)>),
    /// Any columns.
    Any(Columns, u8),
    /// States that were migrated: the bytes, the ends, and how many were to be.
    Migrated(Vec<u8>, Vec<u32>, u8),
}

#[derive(Debug, Arbitrary)]
struct Group {
    verdict: u8,
    state: Vec<u8>,
    timeout_clock: u8,
    timeout_ms: i64,
    outputs: Vec<Vec<u8>>,
    error: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
struct Columns {
    verdicts: Vec<u8>,
    states: Vec<u8>,
    state_ends: Vec<u32>,
    timeout_clocks: Vec<u8>,
    timeouts_ms: Vec<i64>,
    outputs: Vec<u8>,
    output_ends: Vec<u32>,
    group_output_ends: Vec<u32>,
    errors: Vec<u8>,
    error_ends: Vec<u32>,
}

fuzz_target!(|input: Input| {
    let timeout = match input.timeout {
        Timeout::None => TimeoutKind::None,
        Timeout::ProcessingTime => TimeoutKind::ProcessingTime,
        Timeout::EventTime => TimeoutKind::EventTime,
        Timeout::Either => TimeoutKind::Either,
    };
    match input.answer {
        Answer::Changed(groups, changes) => {
            let rows: Vec<Row> = groups.into_iter().map(row).collect();
            let mut columns = columns_of(&rows);
            for (column, place, value) in changes {
                mutate(&mut columns, column, place.into(), value);
            }
            check(&columns, rows.len(), timeout);
        }
        Answer::Any(columns, groups) => {
            check(&answer_columns(columns), groups.into(), timeout);
        }
        Answer::Migrated(states, ends, count) => check_migrated(states, ends, count.into()),
    }
});

/// What is accepted is all of the bytes, each state after the one before.
fn check_migrated(states: Vec<u8>, ends: Vec<u32>, count: usize) {
    let limits = Limits { state_bytes_max: 64, ..Limits::default() };
    let Ok(migrated) = Migrated::check(states.clone(), ends.clone(), count, &limits) else { return };
    assert_eq!(ends.len(), count);
    let mut start = 0;
    for (number, end) in ends.into_iter().enumerate() {
        let state = &states[start..end as usize];
        match migrated.state(number) {
            Ok(found) => assert_eq!(found, state),
            Err(_) => assert!(state.len() > 64),
        }
        start = end as usize;
    }
    assert_eq!(start, states.len());
}

fn row(group: Group) -> Row {
    let Group { verdict, state, timeout_clock, timeout_ms, outputs, error } = group;
    Row { verdict, state, timeout_clock, timeout_ms, outputs, error }
}

fn answer_columns(columns: Columns) -> AnswerColumns {
    AnswerColumns {
        verdicts: columns.verdicts,
        states: columns.states,
        state_ends: columns.state_ends,
        timeout_clocks: columns.timeout_clocks,
        timeouts_ms: columns.timeouts_ms,
        outputs: columns.outputs,
        output_ends: columns.output_ends,
        group_output_ends: columns.group_output_ends,
        errors: columns.errors,
        error_ends: columns.error_ends,
    }
}
