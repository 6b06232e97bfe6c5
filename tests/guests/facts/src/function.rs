//! [`Function`]: which function a guest plays, from its parameters.

use crate::counts::{CountToThree, Rows, RowsWithPrevious};
use crate::initial_count::InitialCount;
use crate::last_value::LastValue;
use crate::script::{Call, Script};
use crate::timeouts::{MaxEventTime, TimeoutCount};
use crate::window_count::WindowCount;
use keyfold_sdk::Form;
use keyfold_sdk::prelude::*;
use serde_json::{Map, Value};

/// One function with its parameters. A parameter that it does not have is refused by name.
#[derive(Deserialize)]
#[serde(tag = "function", rename_all = "kebab-case")]
pub enum Function {
    /// The calls that the events name.
    Script(Script),
    /// A count that is removed at three.
    CountToThree(CountToThree),
    /// The number of rows of a call.
    Rows(Rows),
    /// Each row with the count before it.
    RowsWithPrevious(RowsWithPrevious),
    /// A count that times out in processing time.
    TimeoutCount(TimeoutCount),
    /// The newest event time, which times out in event time.
    MaxEventTime(MaxEventTime),
    /// A count that goes on from an initial state.
    InitialCount(InitialCount),
    /// The count of a window.
    WindowCount(WindowCount),
    /// The last value, in one of two shapes of state.
    LastValue(LastValue),
}

/// One event. A function reads of it what it needs; the key and the time are the host's business.
#[derive(Deserialize)]
pub struct Row {
    /// A value.
    #[serde(default)]
    pub v: Value,
    /// What `script` does.
    #[serde(default, rename = "do")]
    pub calls: Vec<Call>,
}

/// What a function is called with.
pub struct Group<'g, 's> {
    /// The form of the guest.
    pub form: Form,
    /// The key.
    pub key: &'g str,
    /// The events of this call.
    pub rows: Vec<Event<Row>>,
    /// The state.
    pub state: &'g mut GroupState<'s, Value>,
}

const DEFAULT: &str = "script";

impl Function {
    /// The function that the parameters name, or `script`.
    pub fn from_parameters(mut parameters: Map<String, Value>) -> Result<Self> {
        parameters.entry("function").or_insert_with(|| DEFAULT.into());
        Ok(serde_json::from_value(parameters.into())?)
    }

    /// Runs it for one key. Returns the outputs.
    pub fn call(&self, group: &mut Group) -> Result<Vec<Value>> {
        match self {
            Function::Script(function) => function.call(group),
            Function::CountToThree(function) => function.call(group),
            Function::Rows(function) => function.call(group),
            Function::RowsWithPrevious(function) => function.call(group),
            Function::TimeoutCount(function) => function.call(group),
            Function::MaxEventTime(function) => function.call(group),
            Function::InitialCount(function) => function.call(group),
            Function::WindowCount(function) => function.call(group),
            Function::LastValue(function) => function.call(group),
        }
    }
}

impl Group<'_, '_> {
    /// The state as a number, 0 when there is none.
    pub fn count(&self) -> Result<i64> {
        let Some(state) = self.state.get_option()? else { return Ok(0) };
        state.as_i64().ok_or_else(|| Error::new(format_args!("the state {state} is not a whole number")))
    }

    /// How many events the call has, to be added to a count.
    pub fn row_count(&self) -> i64 {
        i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }
}
