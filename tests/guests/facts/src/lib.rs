//! The functions that Spark tests its stateful operators with, so that what is a fact there can be tried here.
//!
//! A guest is a kind of timeout and a form; each plays every function, and the parameter `function` says which. State and outputs
//! are JSON, so that a fact can be written down with what it expects.

pub use keyfold_sdk;

pub mod function;
pub mod script;

mod counts;
mod initial_count;
mod last_value;
mod timeouts;
mod window_count;

pub use script::{perform, perform_in_test};

use function::{Function, Group, Row};
use keyfold_sdk::Form;
use keyfold_sdk::prelude::*;
use serde_json::Value;
use std::marker::PhantomData;

/// In what the guests differ.
pub trait Kind: 'static {
    /// Which timeouts the guest sets.
    const TIMEOUT: TimeoutKind;
    /// What the guest says of its outputs.
    const OUTPUT_MODE: OutputMode = OutputMode::Update;
    /// The schema that the guest writes, and the only one that it reads.
    const STATE_SCHEMA: u32 = 1;
}

/// Spark's `NoTimeout`.
pub struct NoTimeout;
/// Spark's `ProcessingTimeTimeout`.
pub struct ProcessingTime;
/// Spark's `EventTimeTimeout`.
pub struct EventTime;
/// Without timeouts, and with outputs that do not replace earlier ones.
pub struct Appending;
/// Without timeouts, and with a state that earlier versions cannot have written.
pub struct SecondSchema;

impl Kind for NoTimeout {
    const TIMEOUT: TimeoutKind = TimeoutKind::None;
}

impl Kind for ProcessingTime {
    const TIMEOUT: TimeoutKind = TimeoutKind::ProcessingTime;
}

impl Kind for EventTime {
    const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;
}

impl Kind for Appending {
    const TIMEOUT: TimeoutKind = TimeoutKind::None;
    const OUTPUT_MODE: OutputMode = OutputMode::Append;
}

impl Kind for SecondSchema {
    const TIMEOUT: TimeoutKind = TimeoutKind::None;
    const STATE_SCHEMA: u32 = 2;
}

/// The rule of a guest, in either form.
pub struct Facts<K> {
    function: Function,
    kind: PhantomData<K>,
}

impl<K: Kind> Facts<K> {
    fn named(parameters: serde_json::Map<String, Value>) -> Result<Self> {
        Ok(Facts { function: Function::from_parameters(parameters)?, kind: PhantomData })
    }

    fn play(
        &self,
        form: Form,
        key: &str,
        events: Events<Row>,
        state: &mut GroupState<'_, Value>,
    ) -> Result<Vec<Value>> {
        let rows = events.collect::<Result<_>>()?;
        self.function.call(&mut Group { form, key, rows, state })
    }
}

impl<K: Kind> Rule for Facts<K> {
    type Event<'e> = Row;
    type State = Value;
    type Output = Value;
    type Parameters = serde_json::Map<String, Value>;
    const TIMEOUT: TimeoutKind = K::TIMEOUT;
    const OUTPUT_MODE: OutputMode = K::OUTPUT_MODE;
    const STATE_FORMAT: StateFormat = StateFormat::Json;
    const STATE_SCHEMA: u32 = K::STATE_SCHEMA;

    fn new(parameters: Self::Parameters) -> Result<Self> {
        Self::named(parameters)
    }

    fn call(
        &self,
        key: &str,
        rows: Events<Row>,
        state: &mut GroupState<Value>,
        out: &mut Outputs<Value>,
    ) -> Result<()> {
        for output in self.play(Form::FlatMap, key, rows, state)? {
            out.emit(&output)?;
        }
        Ok(())
    }
}

impl<K: Kind> MapRule for Facts<K> {
    type Event<'e> = Row;
    type State = Value;
    type Output = Value;
    type Parameters = serde_json::Map<String, Value>;
    const TIMEOUT: TimeoutKind = K::TIMEOUT;
    const STATE_FORMAT: StateFormat = StateFormat::Json;
    const STATE_SCHEMA: u32 = K::STATE_SCHEMA;

    fn new(parameters: Self::Parameters) -> Result<Self> {
        Self::named(parameters)
    }

    fn call(&self, key: &str, rows: Events<Row>, state: &mut GroupState<Value>) -> Result<Value> {
        let outputs: [Value; 1] = self.play(Form::Map, key, rows, state)?.try_into().map_err(|outputs: Vec<_>| {
            Error::new(format_args!("the map form needs one output, and this function has {} here", outputs.len()))
        })?;
        let [output] = outputs;
        Ok(output)
    }
}

/// Makes the functions the rule of a guest, with this [`Kind`].
#[macro_export]
macro_rules! export {
    ($kind:ty) => {
        $crate::keyfold_sdk::export!($crate::Facts<$kind>);
    };
}

/// Makes the functions the rule of a guest in the map form, with this [`Kind`].
#[macro_export]
macro_rules! export_map {
    ($kind:ty) => {
        $crate::keyfold_sdk::export_map!($crate::Facts<$kind>);
    };
}
