//! Answers made at random: whatever a rule returns is refused or can be read, and says what the columns say.

use crate::support::answers::{Row, check, columns_of, mutate};
use keyfold::description::TimeoutKind;
use keyfold::wasm::answer::AnswerColumns;
use proptest::collection::vec;
use proptest::prelude::*;

fn timeout_kind() -> impl Strategy<Value = TimeoutKind> {
    prop_oneof![
        Just(TimeoutKind::None),
        Just(TimeoutKind::ProcessingTime),
        Just(TimeoutKind::EventTime),
        Just(TimeoutKind::Either),
    ]
}

/// Numbers near the edges, where most faults are.
fn end() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..20_u32, 1 => Just(u32::MAX), 1 => any::<u32>()]
}

fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 0..5_u8, 2 => prop::sample::select(&b"{}[]\"1 \n\r"[..]), 1 => any::<u8>()]
}

const OUTPUTS: &[&[u8]] = &[b"{}", b"[1,2]", b"null", b"\"text\"", b"{\"a\":{\"b\":1}}"];

fn output() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![6 => prop::sample::select(OUTPUTS).prop_map(<[u8]>::to_vec), 1 => vec(byte(), 0..30)]
}

fn row() -> impl Strategy<Value = Row> {
    let timeout_ms = prop_oneof![6 => 900..2100_i64, 1 => any::<i64>(), 1 => Just(i64::MAX)];
    let timeout_clock = prop_oneof![3 => Just(0_u8), 3 => 1..3_u8, 1 => any::<u8>()];
    (0..5_u8, vec(any::<u8>(), 0..8), timeout_clock, timeout_ms, vec(output(), 0..5), vec(byte(), 0..8)).prop_map(
        |(verdict, state, timeout_clock, timeout_ms, outputs, error)| {
            let state = if verdict == 1 { state } else { Vec::new() };
            Row { verdict, state, timeout_clock, timeout_ms, outputs, error }
        },
    )
}

prop_compose! {
    /// Columns that have nothing to do with each other.
    fn columns()(
        bytes in vec(vec(byte(), 0..8), 5),
        ends in vec(vec(end(), 0..8), 4),
        timeouts_ms in vec(any::<i64>(), 0..8),
    ) -> AnswerColumns {
        let [verdicts, states, timeout_clocks, outputs, errors] = <[_; 5]>::try_from(bytes).expect("five were made");
        let [state_ends, output_ends, group_output_ends, error_ends] = <[_; 4]>::try_from(ends).expect("four were made");
        AnswerColumns {
            verdicts, states, state_ends, timeout_clocks, timeouts_ms, outputs, output_ends, group_output_ends, errors,
            error_ends,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn columns_without_rhyme_or_reason_never_harm(columns in columns(), groups in 0..8_usize, timeout in timeout_kind()) {
        check(&columns, groups, timeout);
    }

    #[test]
    fn an_answer_that_fits_together_is_read_group_by_group(rows in vec(row(), 0..8), timeout in timeout_kind()) {
        let usable = check(&columns_of(&rows), rows.len(), timeout);
        prop_assert_eq!(usable.map(|usable| usable.len()), Some(rows.len()));
    }

    #[test]
    fn an_answer_with_some_changes_never_harms(
        rows in vec(row(), 0..8),
        changes in vec((any::<u8>(), any::<usize>(), end()), 1..4),
        timeout in timeout_kind(),
    ) {
        let mut columns = columns_of(&rows);
        for (column, place, value) in changes {
            mutate(&mut columns, column, place, value);
        }
        check(&columns, rows.len(), timeout);
    }

    /// The outcome of a group does not depend on what its neighbours answered.
    #[test]
    fn a_group_is_usable_or_not_by_itself(rows in vec(row(), 1..8), timeout in timeout_kind()) {
        let together = check(&columns_of(&rows), rows.len(), timeout);
        let alone = |row: &Row| check(&columns_of(std::slice::from_ref(row)), 1, timeout) == Some(vec![true]);
        prop_assert_eq!(together, Some(rows.iter().map(alone).collect::<Vec<_>>()));
    }
}
