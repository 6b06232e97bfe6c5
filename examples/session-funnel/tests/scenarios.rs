//! Replays `scenarios/*.toml` without a host, twice: one event a batch, and all events between two advances in one batch.
#![allow(clippy::unwrap_used)]

use session_funnel::SessionFunnel as TheRule;

use keyfold_sdk::testing::TestStream;
use keyfold_sdk::{Rule, TimeoutClock};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleFile {
    key: String,
    event_time: Option<String>,
    watermark_delay: Option<String>,
    #[serde(default)]
    parameters: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    about: String,
    day: String,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    parameters: Map<String, Value>,
    step: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Step {
    at: Option<String>,
    event: Option<Value>,
    advance_event_to: Option<String>,
    advance_wall_to: Option<String>,
    #[serde(default)]
    expect: Expect,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Expect {
    outputs: Vec<Value>,
    state: BTreeMap<String, Value>,
    timeout: BTreeMap<String, Value>,
    dead_letters: Vec<String>,
}

#[test]
fn scenarios_hold_one_event_a_batch() {
    replay_all(false);
}

#[test]
fn scenarios_hold_with_all_events_between_advances_in_one_batch() {
    replay_all(true);
}

fn replay_all(merge: bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rule: RuleFile = toml::from_str(&std::fs::read_to_string(folder.join("rule.toml")).unwrap()).unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(folder.join("scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let scenario: Scenario = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|error| {
            panic!("{}: {error}", path.display());
        });
        let what = format!("{} ({})", path.file_name().unwrap().display(), scenario.about);
        replay(&what, &rule, scenario, merge);
        count += 1;
    }
    assert!(count > 0, "there are no scenarios");
}

fn replay(what: &str, rule: &RuleFile, scenario: Scenario, merge: bool) {
    let mut parameters = rule.parameters.clone();
    parameters.extend(scenario.parameters);
    let made = TheRule::new(serde_json::from_value(parameters.into()).unwrap()).unwrap();
    let delay = scenario.settings.get("watermark-delay").or(rule.watermark_delay.as_ref());
    let mut host = Host {
        stream: TestStream::new(made, 0),
        key: rule.key.clone(),
        event_time: rule.event_time.as_deref().map(|pointer| pointer[1..].to_owned()),
        day: scenario.day,
        delay_ms: delay.map_or(0, |delay| length_ms(delay)),
        watermark_ms: 0,
        newest_ms: 0,
    };
    let mut steps = scenario.step.into_iter().enumerate().peekable();
    while let Some((number, step)) = steps.next() {
        let mut batch = vec![step];
        while merge && batch[0].event.is_some() && steps.peek().is_some_and(|(_, step)| step.event.is_some()) {
            batch.extend(steps.next().map(|(_, step)| step));
        }
        host.run(&format!("{what}, from step {}", number + 1), &batch);
    }
}

/// What the host does around the rule: clocks, watermark, late events.
struct Host {
    stream: TestStream<TheRule>,
    key: String,
    event_time: Option<String>,
    day: String,
    delay_ms: i64,
    watermark_ms: i64,
    newest_ms: i64,
}

impl Host {
    /// Runs the steps as one batch and compares: all outputs and errors, and the last state and timeout.
    fn run(&mut self, what: &str, steps: &[Step]) {
        let (mut outputs, mut errors) = (Vec::new(), Vec::new());
        let mut groups = BTreeMap::<String, Vec<(i64, Value)>>::new();
        for step in steps {
            if let Some(to) = &step.advance_event_to {
                self.watermark_ms = self.watermark_ms.max(time_ms(&self.day, to));
            }
            if let Some(to) = step.advance_wall_to.as_ref().or(step.at.as_ref()) {
                outputs.extend(self.stream.advance_wall_to(time_ms(&self.day, to)).unwrap());
            }
            if let Some(event) = &step.event {
                let key = event.pointer(&self.key).unwrap().as_str().unwrap().to_owned();
                let at_ms = time_ms(&self.day, step.at.as_ref().expect("an event has a time"));
                groups.entry(key).or_default().push((at_ms, event.clone()));
            }
        }
        for (key, mut events) in groups {
            if let Some(field) = &self.event_time {
                events.retain(|(at_ms, _)| *at_ms > self.watermark_ms);
                events.iter_mut().for_each(|(at_ms, event)| event[field] = Value::from(*at_ms));
                self.newest_ms = events.iter().fold(self.newest_ms, |newest_ms, (at_ms, _)| newest_ms.max(*at_ms));
            }
            match self.stream.events(&key, &events) {
                Ok(more) => outputs.extend(more),
                Err(error) => errors.push(error.to_string()),
            }
        }
        self.watermark_ms = self.watermark_ms.max(self.newest_ms - self.delay_ms);
        outputs.extend(self.stream.advance_event_to(self.watermark_ms).unwrap());

        let expected: Vec<&Value> = steps.iter().flat_map(|step| &step.expect.outputs).collect();
        let as_expected = expected.len() == outputs.len() && expected.iter().zip(&outputs).all(|(e, o)| matches(e, o));
        assert!(as_expected, "{what}: expected {expected:#?}, not {outputs:#?}");
        let expected: Vec<&String> = steps.iter().flat_map(|step| &step.expect.dead_letters).collect();
        let as_expected = expected.len() == errors.len() && expected.iter().zip(&errors).all(|(e, o)| o.contains(*e));
        assert!(as_expected, "{what}: expected {expected:?}, not {errors:?}");
        if let Some(last) = steps.last() {
            self.check_keys(what, &last.expect);
        }
    }

    fn check_keys(&self, what: &str, expect: &Expect) {
        for (key, expected) in &expect.state {
            let state = serde_json::to_value(self.stream.state(key).unwrap()).unwrap();
            let as_expected = if expected == false { state.is_null() } else { matches(expected, &state) };
            assert!(as_expected, "{what}: expected state {expected:#}, not {state:#}");
        }
        for (key, expected) in &expect.timeout {
            let expected = expected.as_str().map(|text| match text.split_once(' ') {
                Some(("processing", at)) => (TimeoutClock::ProcessingTime, time_ms(&self.day, at)),
                Some(("event", at)) => (TimeoutClock::EventTime, time_ms(&self.day, at)),
                _ => panic!("{what}: '{text}' is not a timeout"),
            });
            let timeout = self.stream.timeout(key).map(|timeout| (timeout.clock, timeout.at_ms));
            assert_eq!(timeout, expected, "{what}: timeout of {key}");
        }
    }
}

/// Whether all that is expected is there; fields that are not named are free.
fn matches(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            expected.iter().all(|(name, value)| actual.get(name).is_some_and(|actual| matches(value, actual)))
        }
        (expected, actual) => expected == actual,
    }
}

/// `HH:MM:SS[.mmm]` on the day, or `+7d HH:MM:SS` that many days later.
fn time_ms(day: &str, text: &str) -> i64 {
    let later = text.strip_prefix('+').and_then(|text| text.split_once("d "));
    let (days, clock) = later.map_or((0, text), |(days, clock)| (days.parse().unwrap(), clock));
    let timestamp: jiff::Timestamp = format!("{day}T{clock}Z").parse().unwrap();
    timestamp.as_millisecond() + days * 86_400_000
}

fn length_ms(text: &str) -> i64 {
    i64::try_from(text.parse::<jiff::SignedDuration>().unwrap().as_millis()).unwrap()
}
