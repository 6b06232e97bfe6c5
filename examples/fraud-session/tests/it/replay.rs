//! Every scenario, step by step as a host would run it, and with all events between two advances in one batch.

use crate::scenario::{self, Expect, Scenario, is_part};
use fraud_session::{FraudSession, Parameters, Transition};
use keyfold_sdk::testing::TestStream;
use keyfold_sdk::{Timeout, TimeoutClock};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A scenario under way.
struct Replay<'s> {
    scenario: &'s Scenario,
    stream: TestStream<FraudSession>,
    taken: Rc<RefCell<BTreeSet<Transition>>>,
    newest_ms: i64,
    watermark_ms: i64,
}

impl<'s> Replay<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let parameters: Parameters = serde_json::from_value(Value::Object(scenario.parameters.clone())).unwrap();
        let taken = Rc::new(RefCell::new(BTreeSet::new()));
        let seen = taken.clone();
        let rule = FraudSession::observed(parameters, move |&transition| {
            seen.borrow_mut().insert(transition);
        });
        let stream = TestStream::new(rule.unwrap(), scenario.time_ms("00:00"));
        Replay { scenario, stream, taken, newest_ms: 0, watermark_ms: 0 }
    }

    /// One batch, and the next one if the watermark that it moved makes timeouts due.
    fn batch(&mut self, events: &[(i64, Value)]) -> Vec<Value> {
        let mut outputs = Vec::new();
        let mut groups: BTreeMap<&str, Vec<(i64, Value)>> = BTreeMap::new();
        for (at_ms, event) in events {
            assert!(*at_ms > self.watermark_ms, "late for the host: {event}");
            self.newest_ms = self.newest_ms.max(*at_ms);
            outputs.extend(self.stream.advance_wall_to(*at_ms).unwrap());
            groups.entry(event["user_id"].as_str().unwrap()).or_default().push((*at_ms, event.clone()));
        }
        for (user_id, events) in groups {
            outputs.extend(self.stream.events(user_id, &events).unwrap());
        }
        self.watermark_ms = self.watermark_ms.max(self.newest_ms - self.scenario.delay_ms());
        outputs.extend(self.stream.advance_event_to(self.watermark_ms).unwrap());
        outputs
    }

    /// Moves the clocks that the step names.
    fn advance(&mut self, step: &scenario::Step) -> Vec<Value> {
        let mut outputs = Vec::new();
        if let Some(to) = &step.advance_event_to {
            self.watermark_ms = self.watermark_ms.max(self.scenario.time_ms(to));
            outputs.extend(self.stream.advance_event_to(self.watermark_ms).unwrap());
        }
        if let Some(to) = &step.advance_wall_to {
            outputs.extend(self.stream.advance_wall_to(self.scenario.time_ms(to)).unwrap());
        }
        outputs
    }

    fn event(&self, step: &scenario::Step) -> Option<(i64, Value)> {
        let at_ms = self.scenario.time_ms(step.at.as_deref()?);
        let mut event = step.event.clone()?;
        event["ts"] = json!(at_ms);
        Some((at_ms, event))
    }

    fn check(&self, expect: &Expect, outputs: &[Value], place: &str) {
        let equal = outputs.len() == expect.outputs.len()
            && expect.outputs.iter().zip(outputs).all(|(expected, output)| is_part(expected, output));
        assert!(equal, "{place}: expected {:#?}, found {outputs:#?}", expect.outputs);
        for (user_id, expected) in &expect.state {
            let state = serde_json::to_value(self.stream.state(user_id).unwrap()).unwrap();
            let expected = if *expected == json!(false) { &Value::Null } else { expected };
            assert!(is_part(expected, &state), "{place}: expected {expected:#}, found {state:#}");
        }
        for (user_id, expected) in &expect.timeout {
            let expected = expected.as_str().map(|text| self.timeout(text));
            assert_eq!(self.stream.timeout(user_id), expected, "{place}: the timeout of {user_id}");
        }
    }

    fn timeout(&self, text: &str) -> Timeout {
        let (clock, time) = text.split_once(' ').unwrap();
        let clock = match clock {
            "event" => TimeoutClock::EventTime,
            "processing" => TimeoutClock::ProcessingTime,
            other => panic!("{other} is not a clock"),
        };
        Timeout { clock, at_ms: self.scenario.time_ms(time) }
    }
}

/// The transitions that the scenarios take.
pub fn taken() -> BTreeSet<Transition> {
    let mut taken = BTreeSet::new();
    for (name, scenario) in scenario::all() {
        let mut replay = Replay::new(&scenario);
        for (number, step) in scenario.steps.iter().enumerate() {
            let mut outputs = replay.advance(step);
            if let Some(event) = replay.event(step) {
                outputs.extend(replay.batch(&[event]));
            }
            let place = format!("{name} ({}), step {}", scenario.about, number + 1);
            replay.check(&step.expect, &outputs, &place);
        }
        taken.append(&mut replay.taken.borrow_mut());
    }
    taken
}

#[test]
fn scenarios_hold_step_by_step() {
    assert!(!taken().is_empty());
}

#[test]
fn scenarios_give_the_same_outputs_in_large_batches() {
    for (name, scenario) in scenario::all() {
        let mut replay = Replay::new(&scenario);
        let (mut events, mut outputs, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for step in &scenario.steps {
            expected.extend(step.expect.outputs.iter().cloned());
            match replay.event(step) {
                Some(event) => events.push(event),
                None => {
                    outputs.extend(replay.batch(&std::mem::take(&mut events)));
                    outputs.extend(replay.advance(step));
                }
            }
        }
        outputs.extend(replay.batch(&events));
        replay.check(&Expect { outputs: expected, ..Expect::default() }, &outputs, &name);
    }
}
