//! What the scenarios cannot show: single calls, refused parameters, and properties over random visits.
#![allow(clippy::unwrap_used)]

use keyfold_sdk::testing::{self, TestGroupState, TestStream};
use keyfold_sdk::{Rule, Timeout, TimeoutClock, TimeoutKind};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use session_funnel::{CART_MAX, CLOSED_MAX, Parameters, SessionFunnel, Visitor};

const START_MS: i64 = 1_767_621_600_000;
const MINUTE_MS: i64 = 60_000;
const IDLE_MS: i64 = 30 * MINUTE_MS;
const TOMBSTONE_MS: i64 = 120 * MINUTE_MS;

#[test]
fn a_session_that_the_watermark_has_passed_is_closed_by_the_call_with_its_events() {
    let watermark_ms = START_MS + IDLE_MS;
    let mut state =
        TestGroupState::<Visitor>::create(None, TimeoutKind::EventTime, 0, Some(watermark_ms), false).unwrap();
    let events = [(START_MS - 1, page_view()), (START_MS, page_view())];
    let outputs = testing::call_at(&rule(), "U1", &events, &mut state).unwrap();
    assert_eq!(kinds(&outputs), ["session.summary"]);
    assert_eq!(outputs[0]["events"], 2);
    let at_ms = START_MS + IDLE_MS + TOMBSTONE_MS - 1;
    assert_eq!(state.timeout(), Some(Timeout { clock: TimeoutClock::EventTime, at_ms }));
}

#[test]
fn a_session_that_is_forgotten_at_once_leaves_no_state() {
    let watermark_ms = START_MS + IDLE_MS + TOMBSTONE_MS;
    let mut state =
        TestGroupState::<Visitor>::create(None, TimeoutKind::EventTime, 0, Some(watermark_ms), false).unwrap();
    let outputs = testing::call_at(&rule(), "U1", &[(START_MS, page_view())], &mut state).unwrap();
    assert_eq!(kinds(&outputs), ["session.bounced", "session.summary"]);
    assert!(state.is_removed() && state.timeout().is_none());
}

#[test]
fn parameters_are_refused_by_name() {
    for (parameters, name) in [
        (json!({"idle_ms": 0}), "idle_ms"),
        (json!({"tombstone_ms": 604_800_001}), "tombstone_ms"),
        (json!({"idle": 30}), "idle"),
    ] {
        let refused = serde_json::from_value::<Parameters>(parameters)
            .map_err(|error| error.to_string())
            .and_then(|parameters| SessionFunnel::new(parameters).map(drop).map_err(|error| error.to_string()));
        assert!(refused.as_ref().is_err_and(|text| text.contains(name)), "{name}: {refused:?}");
    }
}

const DELAY_MS: i64 = 60 * MINUTE_MS;

/// An event of one of two users, at a time that the watermark has not reached whatever the batches.
#[derive(Debug, Clone)]
struct Arrival {
    user: &'static str,
    at_ms: i64,
    event: Value,
}

fn visits(max_events: usize) -> impl Strategy<Value = Vec<Arrival>> {
    let sku = || prop::sample::select(vec!["p1", "p2", "p3"]);
    let event = prop_oneof![
        3 => Just(page_view()),
        3 => sku().prop_map(|sku| json!({"type": "product.view", "sku": sku})),
        3 => (sku(), 0..10_000u64).prop_map(|(sku, value)| json!({"type": "cart.add", "sku": sku, "value_minor": value})),
        1 => sku().prop_map(|sku| json!({"type": "cart.remove", "sku": sku})),
        1 => Just(json!({"type": "checkout.start"})),
        1 => Just(json!({"type": "payment.ok", "order": "O1", "value_minor": 100})),
        1 => Just(json!({"type": "coupon.shown"})),
    ];
    let pause_ms =
        prop_oneof![6 => 0..5 * MINUTE_MS, 2 => Just(IDLE_MS), 2 => 0..50 * MINUTE_MS, 1 => 0..300 * MINUTE_MS];
    let late_ms = prop_oneof![3 => Just(0), 1 => 0..DELAY_MS];
    let user = prop_oneof![3 => Just("U1"), 1 => Just("U2")];
    prop::collection::vec((user, event, pause_ms, late_ms), 1..max_events).prop_map(|drawn| {
        let mut newest_ms = START_MS;
        let arrive = |(user, event, pause_ms, late_ms)| {
            newest_ms += pause_ms;
            Arrival { user, at_ms: newest_ms - late_ms, event }
        };
        drawn.into_iter().map(arrive).collect()
    })
}

proptest! {
    // The same cases on every run: a failure here must not come and go.
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(59), ..ProptestConfig::default()
    })]

    #[test]
    fn outputs_do_not_depend_on_how_batches_are_cut(
        arrivals in visits(80),
        lengths in prop::collection::vec(1..12usize, 80),
    ) {
        let one_by_one = replay(&arrivals, &[1].repeat(80));
        prop_assert_eq!(&one_by_one, &replay(&arrivals, &lengths));
        prop_assert_eq!(&one_by_one, &replay(&arrivals, &[80]));
    }

    #[test]
    fn every_session_ends_with_one_summary(arrivals in visits(80)) {
        for outputs in replay(&arrivals, &[1].repeat(80)) {
            let mut ended = Vec::new();
            for output in outputs {
                let id = output["session_id"].clone();
                match output["kind"].as_str().unwrap() {
                    "session.summary" => {
                        prop_assert!(!ended.contains(&id), "{} has two summaries", id);
                        ended.push(id);
                    }
                    "session.amended" => prop_assert!(ended.contains(&id), "{} had not ended", id),
                    "session.bounced" | "funnel.abandoned" => prop_assert!(!ended.contains(&id), "{} had ended", id),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn the_timeout_is_the_next_deadline_and_the_state_is_bounded(arrivals in visits(200)) {
        let mut stream = TestStream::new(rule(), 0);
        let mut newest_ms = 0;
        for Arrival { user, at_ms, event } in arrivals {
            stream.events(user, &[(at_ms, event)]).unwrap();
            newest_ms = newest_ms.max(at_ms);
            stream.advance_event_to(newest_ms - DELAY_MS).unwrap();
            let Some(visitor) = stream.state("U1").unwrap() else {
                prop_assert_eq!(stream.timeout("U1"), None);
                continue;
            };
            let visitor = serde_json::to_value(&visitor).unwrap();
            let closed = visitor["closed"].as_array().unwrap();
            let idle = visitor["open"]["last_ms"].as_i64().map(|last_ms| last_ms + IDLE_MS);
            let tombstones = closed.iter().map(|ended| ended["last_ms"].as_i64().unwrap() + IDLE_MS + TOMBSTONE_MS);
            let at_ms = tombstones.chain(idle).min().unwrap() - 1;
            prop_assert_eq!(stream.timeout("U1"), Some(Timeout { clock: TimeoutClock::EventTime, at_ms }));
            prop_assert!(closed.len() <= CLOSED_MAX);
        }
    }

    #[test]
    fn a_cart_lists_no_more_than_its_limit(adds in 0..150u64, removes in 0..60usize) {
        let mut stream = TestStream::new(rule(), 0);
        let add = |number| (START_MS, json!({"type": "cart.add", "sku": format!("p{number}"), "value_minor": 7}));
        let mut events: Vec<(i64, Value)> = (0..adds).map(add).collect();
        let remove = |number| (START_MS, json!({"type": "cart.remove", "sku": format!("p{number}")}));
        events.extend((0..adds).rev().take(removes).map(remove));
        events.push((START_MS, page_view()));
        stream.events("U1", &events).unwrap();
        let visitor = serde_json::to_value(stream.state("U1").unwrap()).unwrap();
        let cart = &visitor["open"]["cart"];
        prop_assert!(cart["listed"].as_array().unwrap().len() <= CART_MAX);
        let left = adds - adds.min(CART_MAX as u64).min(removes as u64);
        prop_assert_eq!((&cart["items"], &cart["value_minor"]), (&json!(left), &json!(7 * left)));
    }
}

/// The outputs of each user when the arrivals are cut into batches of these lengths, the last one repeated.
fn replay(arrivals: &[Arrival], lengths: &[usize]) -> [Vec<Value>; 2] {
    let mut stream = TestStream::new(rule(), 0);
    let mut lengths = lengths.iter();
    let mut outputs = Vec::new();
    let (mut rest, mut newest_ms) = (arrivals, 0);
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(rest.len().min(*lengths.next().unwrap()));
        rest = after;
        for user in ["U1", "U2"] {
            let of_user = batch.iter().filter(|arrival| arrival.user == user);
            let events: Vec<(i64, Value)> = of_user.map(|arrival| (arrival.at_ms, arrival.event.clone())).collect();
            if !events.is_empty() {
                outputs.extend(stream.events(user, &events).unwrap());
            }
        }
        newest_ms = batch.iter().fold(newest_ms, |newest_ms, arrival| newest_ms.max(arrival.at_ms));
        outputs.extend(stream.advance_event_to(newest_ms - DELAY_MS).unwrap());
    }
    outputs.extend(stream.advance_event_to(newest_ms + IDLE_MS).unwrap());
    stream.advance_event_to(newest_ms + IDLE_MS + TOMBSTONE_MS).unwrap();
    assert_eq!(stream.keys().count(), 0, "all is forgotten in the end");
    let (first, second) = outputs.into_iter().partition(|output| output["user_id"] == "U1");
    [first, second]
}

fn rule() -> SessionFunnel {
    SessionFunnel::new(Parameters::default()).unwrap()
}

fn page_view() -> Value {
    json!({"type": "page.view"})
}

fn kinds(outputs: &[Value]) -> Vec<&str> {
    outputs.iter().filter_map(|output| output["kind"].as_str()).collect()
}
