//! `GroupState` in a batch query: what Spark's does when the input is finite and nothing is called afterwards.

use keyfold_sdk::prelude::*;
use keyfold_sdk::testing::TestGroupState;

fn state(kind: TimeoutKind, has_watermark: bool) -> TestGroupState<u32> {
    TestGroupState::create_for_batch(None, kind, 1_000, has_watermark).expect("these are legal")
}

#[test]
fn a_legal_timeout_is_accepted_and_has_no_effect() {
    for has_watermark in [false, true] {
        let mut processing = state(TimeoutKind::ProcessingTime, has_watermark);
        processing.set_timeout_duration(500).expect("it is legal");
        processing.set_timeout_duration("2 seconds").expect("it is legal");
        assert_eq!((processing.timeout(), processing.is_timeout_updated()), (None, false));

        let mut event = state(TimeoutKind::EventTime, has_watermark);
        event.set_timeout_timestamp(1).expect("no watermark is ahead of it");
        event.set_timeout_timestamp_after(0, "1 hour").expect("the sum is positive");
        assert_eq!((event.timeout(), event.is_timeout_updated()), (None, false));
    }
}

#[test]
fn illegal_arguments_and_the_wrong_kind_are_refused_as_in_a_stream() {
    let illegal = |result| assert!(matches!(result, Err(StateError::IllegalArgument(_))), "{result:?}");
    let unsupported = |result| assert!(matches!(result, Err(StateError::UnsupportedOperation(_))), "{result:?}");
    for has_watermark in [false, true] {
        illegal(state(TimeoutKind::ProcessingTime, has_watermark).set_timeout_duration(0));
        illegal(state(TimeoutKind::ProcessingTime, has_watermark).set_timeout_duration("-2 seconds"));
        illegal(state(TimeoutKind::EventTime, has_watermark).set_timeout_timestamp(-10_000));
        illegal(state(TimeoutKind::EventTime, has_watermark).set_timeout_timestamp_after(10_000, "-3 seconds"));
        for kind in [TimeoutKind::None, TimeoutKind::EventTime] {
            unsupported(state(kind, has_watermark).set_timeout_duration(10));
        }
        for kind in [TimeoutKind::None, TimeoutKind::ProcessingTime] {
            unsupported(state(kind, has_watermark).set_timeout_timestamp(10_000));
        }
    }
}

#[test]
fn the_watermark_is_minus_one_where_there_is_one() {
    for kind in [TimeoutKind::None, TimeoutKind::ProcessingTime, TimeoutKind::EventTime, TimeoutKind::Either] {
        assert_eq!(state(kind, true).current_watermark_ms(), Ok(-1));
        assert!(matches!(state(kind, false).current_watermark_ms(), Err(StateError::UnsupportedOperation(_))));
        assert_eq!(state(kind, true).current_processing_time_ms(), 1_000);
        assert!(!state(kind, true).has_timed_out());
    }
}

#[test]
fn the_state_itself_is_as_in_a_stream() {
    let mut state = TestGroupState::create_for_batch(Some(&5), TimeoutKind::None, 1_000, false).expect("it is legal");
    assert_eq!(state.get(), Ok(5));
    state.update(&6).expect("it encodes");
    assert!(state.is_updated() && state.get() == Ok(6));
    state.remove();
    assert!(state.is_removed() && !state.exists());
    let before_1970 = TestGroupState::<u32>::create_for_batch(None, TimeoutKind::None, -1, false);
    assert!(matches!(before_1970, Err(StateError::IllegalArgument(_))));
}
