//! `GroupState` against the rules of Spark's: what each method does, which error it gives, and in which order it checks.

use keyfold_sdk::prelude::*;
use keyfold_sdk::testing::TestGroupState;

type State = TestGroupState<Option<u32>>;

const ALL_KINDS: [TimeoutKind; 4] =
    [TimeoutKind::None, TimeoutKind::ProcessingTime, TimeoutKind::EventTime, TimeoutKind::Either];

fn state(given: Option<u32>, kind: TimeoutKind) -> State {
    let given = given.map(Some);
    TestGroupState::create(given.as_ref(), kind, 1_000, Some(500), false).expect("these are legal")
}

fn message(result: Result<(), StateError>) -> String {
    result.expect_err("it is not allowed").to_string()
}

#[test]
fn a_key_without_state_has_none_until_it_is_updated() {
    let mut state = state(None, TimeoutKind::None);
    assert!(!state.exists() && !state.is_updated() && !state.is_removed());
    assert!(matches!(state.get(), Err(StateError::NoSuchElement(_))));
    assert_eq!(state.get_option(), Ok(None));
    state.update(&Some(5)).expect("it encodes");
    assert!(state.exists() && state.is_updated());
    assert_eq!(state.get(), Ok(Some(5)));
}

#[test]
fn remove_can_be_repeated_and_undone_by_update() {
    let mut state = state(Some(5), TimeoutKind::None);
    state.remove();
    state.remove();
    assert!(state.is_removed() && !state.exists());
    assert!(matches!(state.get(), Err(StateError::NoSuchElement(_))));
    state.update(&Some(6)).expect("it encodes");
    assert!(state.is_updated() && !state.is_removed());
    assert_eq!(state.get(), Ok(Some(6)));
    state.remove();
    assert!(!state.is_updated(), "updated means: and not removed afterwards");
}

#[test]
fn a_value_that_was_read_is_the_callers_own() {
    let state = state(Some(5), TimeoutKind::None);
    let mut value = state.get().expect("there is state");
    value = value.map(|value| value + 1);
    assert_eq!((value, state.get()), (Some(6), Ok(Some(5))));
}

#[test]
fn a_null_state_is_refused_and_leaves_the_one_before() {
    let mut state = state(None, TimeoutKind::None);
    state.update(&Some(5)).expect("it encodes");
    assert!(matches!(state.update(&None), Err(StateError::IllegalArgument(_))));
    assert_eq!(state.get(), Ok(Some(5)));
}

#[test]
fn a_duration_counts_from_the_batch_and_the_last_call_wins() {
    for kind in [TimeoutKind::ProcessingTime, TimeoutKind::Either] {
        let mut state = state(None, kind);
        assert_eq!(state.timeout(), None);
        state.set_timeout_duration(10_000).expect("it is legal");
        state.set_timeout_duration("30 minutes").expect("it is legal");
        let timeout = Timeout { clock: TimeoutClock::ProcessingTime, at_ms: 1_000 + 30 * 60_000 };
        assert_eq!(state.timeout(), Some(timeout));
        assert!(!state.exists(), "a timeout needs no state");
        state.update(&Some(1)).expect("it encodes");
        state.remove();
        assert_eq!(state.timeout(), Some(timeout), "neither update nor remove touches it");
    }
}

#[test]
fn a_timestamp_may_be_the_watermark_and_not_before_it() {
    for kind in [TimeoutKind::EventTime, TimeoutKind::Either] {
        let mut state = state(None, kind);
        state.set_timeout_timestamp(500).expect("the watermark itself is legal");
        assert!(message(state.set_timeout_timestamp(499)).contains("before the current watermark 500"));
        assert!(message(state.set_timeout_timestamp(0)).contains("not positive"));
        assert_eq!(
            state.timeout(),
            Some(Timeout { clock: TimeoutClock::EventTime, at_ms: 500 }),
            "an error changes nothing"
        );
        state.set_timeout_timestamp_after(400, "1 second").expect("the sum counts");
        assert_eq!(state.timeout(), Some(Timeout { clock: TimeoutClock::EventTime, at_ms: 1_400 }));
    }
}

#[test]
fn either_has_one_timeout_on_the_clock_of_the_last_call() {
    let mut state = state(None, TimeoutKind::Either);
    state.set_timeout_timestamp(900).expect("it is legal");
    state.set_timeout_duration(10).expect("it is legal");
    assert_eq!(state.timeout(), Some(Timeout { clock: TimeoutClock::ProcessingTime, at_ms: 1_010 }));
}

#[test]
fn timeouts_of_another_kind_are_unsupported() {
    for kind in [TimeoutKind::None, TimeoutKind::EventTime] {
        let refused = state(None, kind).set_timeout_duration(10);
        assert!(matches!(refused, Err(StateError::UnsupportedOperation(_))), "{kind:?}");
    }
    for kind in [TimeoutKind::None, TimeoutKind::ProcessingTime] {
        let refused = state(None, kind).set_timeout_timestamp(900);
        assert!(matches!(refused, Err(StateError::UnsupportedOperation(_))), "{kind:?}");
    }
}

#[test]
fn the_order_of_checks_is_sparks() {
    // A duration's text is parsed before the kind is looked at, ...
    assert!(message(state(None, TimeoutKind::None).set_timeout_duration("-1 second")).contains("negative"));
    // ... a zero length after it, ...
    assert!(message(state(None, TimeoutKind::None).set_timeout_duration("0 seconds")).contains("timeout kind"));
    assert!(message(state(None, TimeoutKind::ProcessingTime).set_timeout_duration(0)).contains("not positive"));
    // ... and the text of an additional duration after it as well.
    let added = state(None, TimeoutKind::None).set_timeout_timestamp_after(900, "-1 second");
    assert!(message(added).contains("timeout kind"));
    let added = state(None, TimeoutKind::EventTime).set_timeout_timestamp_after(900, "-1 second");
    assert!(message(added).contains("negative"));
}

#[test]
fn the_watermark_can_be_read_whatever_the_timeout_kind_if_there_is_one() {
    for kind in ALL_KINDS {
        assert_eq!(state(None, kind).current_watermark_ms(), Ok(500));
        let without = State::create(None, kind, 1_000, None, false).expect("it is legal");
        assert!(matches!(without.current_watermark_ms(), Err(StateError::UnsupportedOperation(_))));
        assert_eq!(without.current_processing_time_ms(), 1_000);
    }
}

#[test]
fn a_timestamp_is_compared_with_the_watermark_only_if_there_is_one() {
    let mut without = State::create(None, TimeoutKind::EventTime, 1_000, None, false).expect("it is legal");
    without.set_timeout_timestamp(1).expect("nothing is known to lie after it");
    assert_eq!(without.timeout(), Some(Timeout { clock: TimeoutClock::EventTime, at_ms: 1 }));
    assert!(matches!(without.set_timeout_timestamp(0), Err(StateError::IllegalArgument(_))));
}

#[test]
fn only_a_call_with_imported_state_is_initial() {
    let state = State::create_initial(&Some(5), TimeoutKind::None, 1_000, None).expect("it is legal");
    assert!(state.is_initial() && !state.has_timed_out() && state.get() == Ok(Some(5)));
    assert!(!state.is_updated(), "the import is there before the call");
    let plain = State::create(Some(&Some(5)), TimeoutKind::None, 1_000, None, false).expect("it is legal");
    assert!(!plain.is_initial());
}

#[test]
fn the_test_kit_refuses_what_cannot_be() {
    let create = |kind, time_ms, watermark_ms, timed_out| State::create(None, kind, time_ms, watermark_ms, timed_out);
    assert!(matches!(create(TimeoutKind::None, -1, None, false), Err(StateError::IllegalArgument(_))));
    assert!(matches!(create(TimeoutKind::None, 0, Some(-1), false), Err(StateError::IllegalArgument(_))));
    assert!(matches!(create(TimeoutKind::None, 0, None, true), Err(StateError::UnsupportedOperation(_))));
    assert!(create(TimeoutKind::EventTime, 0, Some(0), true).is_ok_and(|state| state.has_timed_out()));
}
