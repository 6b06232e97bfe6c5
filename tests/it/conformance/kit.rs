//! The calls of a case on the SDK's `TestGroupState`: what an author's unit test of the same calls would see.

use super::fact::{Call, Case, Row, json};
use super::report::Failure;
use facts::perform_in_test;
use keyfold_sdk::TimeoutKind;
use keyfold_sdk::testing::TestGroupState;
use serde_json::{Value, json};

/// A key after the first few calls of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct After {
    /// What each call gave.
    pub results: Vec<Value>,
    pub value: Option<Value>,
    pub timeout: Option<i64>,
    pub updated: bool,
    pub removed: bool,
}

impl After {
    /// A key that was not called.
    pub fn of(row: &Row) -> Self {
        let value = row.value.as_ref().map(json);
        After { results: Vec::new(), value, timeout: row.timeout, updated: false, removed: false }
    }
}

/// Makes the calls of a case, and checks each. Returns the key before all of them, after the first, after the second, ...
pub fn play(case: &Case, rule: &str, prior: &Row) -> Result<Vec<After>, Failure> {
    let state = match create(case, rule, prior) {
        Ok(state) => state,
        Err(error) => return Err(Failure::found("creating the state", "a state to call", error)),
    };
    let mut calls = Calls { state, after: Vec::new() };
    calls.note(Vec::new());
    for call in case.calls.iter().flatten() {
        calls.make(call)?;
    }
    if let Some(leaves) = &case.leaves {
        let last = calls.after.last().expect("the first stands for no calls");
        let expected = (leaves.value.as_ref().map(json), leaves.timeout);
        let found = (last.value.clone(), last.timeout);
        Failure::unless_equal("the row in the test kit", &row(&expected.0, expected.1), &row(&found.0, found.1))?;
    }
    Ok(calls.after)
}

/// What the kit refuses to make, by the name of Spark's exception.
pub fn refusal(case: &Case, rule: &str) -> Option<&'static str> {
    use keyfold_sdk::StateError;
    match create(case, rule, &Row::default()).err()? {
        StateError::NoSuchElement(_) => Some("NoSuchElementException"),
        StateError::UnsupportedOperation(_) => Some("UnsupportedOperationException"),
        StateError::IllegalArgument(_) => Some("IllegalArgumentException"),
        StateError::Codec(_) => Some("no exception of Spark's"),
    }
}

/// A row as it is shown in a failure.
pub fn row(value: &Option<Value>, timeout: Option<i64>) -> Value {
    let mut row = json!({});
    if let Some(value) = value {
        row["value"] = value.clone();
    }
    if let Some(timeout) = timeout {
        row["timeout"] = timeout.into();
    }
    row
}

fn create(case: &Case, rule: &str, prior: &Row) -> Result<TestGroupState<Value>, keyfold_sdk::StateError> {
    let kind = match rule {
        "facts-processing" => TimeoutKind::ProcessingTime,
        "facts-event" => TimeoutKind::EventTime,
        _ => TimeoutKind::None,
    };
    let value = prior.value.as_ref().map(json);
    let now = case.now.unwrap_or(0);
    if case.batch {
        return TestGroupState::create_for_batch(value.as_ref(), kind, now, case.has_event_time());
    }
    TestGroupState::create(value.as_ref(), kind, now, case.watermark, case.timed_out)
}

struct Calls {
    state: TestGroupState<Value>,
    after: Vec<After>,
}

impl Calls {
    fn make(&mut self, call: &Call) -> Result<(), Failure> {
        let what = |part: &str| format!("{part} {} in the test kit", call.call);
        let made = serde_json::from_value(call.json()).expect("the guests know the call");
        let expected = call.gives.as_ref().map_or(Value::Null, json);
        let found = perform_in_test(&[made], &mut self.state).map(|mut results| results.pop().unwrap_or_default());
        let found = found.unwrap_or_else(|error| error.to_string().into());
        Failure::unless_equal(&what("what is given by"), &expected, &found)?;
        let mut results = self.after.last().map(|after| after.results.clone()).unwrap_or_default();
        results.push(found);
        self.note(results);
        let after = self.after.last().expect("it was noted just now");
        for (name, expected, found) in
            [("updated", call.updated, after.updated), ("removed", call.removed, after.removed)]
        {
            if let Some(expected) = expected {
                Failure::unless_equal(&what(&format!("{name} after")), &expected.into(), &found.into())?;
            }
        }
        if let Some(expected) = &call.timeout {
            let found = after.timeout.map_or(Value::Bool(false), Value::from);
            Failure::unless_equal(&what("the timeout after"), &json(expected), &found)?;
        }
        Ok(())
    }

    fn note(&mut self, results: Vec<Value>) {
        self.after.push(After {
            results,
            value: self.state.get_option().expect("JSON can be read as JSON"),
            timeout: self.state.timeout().map(|timeout| timeout.at_ms),
            updated: self.state.is_updated(),
            removed: self.state.is_removed(),
        });
    }
}

impl Call {
    /// As an event of the guests says it.
    pub fn json(&self) -> Value {
        let mut call = json!({ "call": self.call });
        if let Some(with) = &self.with {
            call["with"] = json(with);
        }
        call
    }
}
