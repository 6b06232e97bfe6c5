//! [`MapRule`]: a rule with one output for each call. [`Map`] makes it a [`Rule`].

use crate::rule::Form;
use crate::{Events, GroupState, OutputMode, Outputs, Result, Rule, StateFormat, TimeoutKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A stateful function that gives exactly one output for each call: Spark's `mapGroupsWithState`.
///
/// It is for functions whose result is a value of the key, such as its total or its present status: the newest output of a key
/// replaces the ones before, so the output mode is [`OutputMode::Update`] and cannot be chosen. Each call gives an output, the call
/// for a timeout and the one for an imported state as well. A function that is silent at times, or has several things to say, is a
/// [`Rule`]: Spark's `flatMapGroupsWithState`.
///
/// ```
/// use keyfold_sdk::prelude::*;
/// use keyfold_sdk::Map;
/// use keyfold_sdk::testing::{self, TestGroupState};
///
/// #[derive(Deserialize)]
/// struct Booking { amount_minor: i64 }
///
/// struct Balance;
///
/// impl MapRule for Balance {
///     type Event<'e> = Booking;
///     type State = i64;
///     type Output = (String, i64);
///     type Parameters = NoParameters;
///
///     fn new(_: NoParameters) -> Result<Self> { Ok(Balance) }
///
///     fn call(&self, account: &str, bookings: Events<Booking>, state: &mut GroupState<i64>) -> Result<(String, i64)> {
///         let mut balance = state.get_option()?.unwrap_or(0);
///         for booking in bookings { balance += booking?.amount_minor; }
///         state.update(&balance)?;
///         Ok((account.into(), balance))
///     }
/// }
///
/// keyfold_sdk::export_map!(Balance);
///
/// let mut state = TestGroupState::create(Some(&40), TimeoutKind::None, 1_000, None, false).unwrap();
/// let bookings = [serde_json::json!({"amount_minor": 7}), serde_json::json!({"amount_minor": -5})];
/// let outputs = testing::call(&Map(Balance), "A1", &bookings, &mut state).unwrap();
/// assert_eq!(outputs, [serde_json::json!(["A1", 42])]);
/// ```
pub trait MapRule: Sized + 'static {
    /// One event, as in [`Rule::Event`].
    type Event<'e>: serde::Deserialize<'e>;
    /// The state of one key.
    type State: Serialize + DeserializeOwned;
    /// The output of a call, written as one line of JSON.
    type Output: Serialize;
    /// The parameters, as in [`Rule::Parameters`].
    type Parameters: DeserializeOwned + JsonSchema;

    /// Which timeouts the rule sets.
    const TIMEOUT: TimeoutKind = TimeoutKind::None;
    /// How states are encoded.
    const STATE_FORMAT: StateFormat = StateFormat::MessagePack;
    /// The number, from 1, of the state's shape, as in [`Rule::STATE_SCHEMA`].
    const STATE_SCHEMA: u32 = 1;
    /// The numbers of the shapes that this version can read, its own included.
    const READABLE_SCHEMAS: &'static [u32] = &[Self::STATE_SCHEMA];

    /// Checks the parameters and makes the rule.
    fn new(parameters: Self::Parameters) -> Result<Self>;

    /// Handles one key and gives its output. What is said of [`Rule::call`] holds here too.
    fn call<'e>(
        &self,
        key: &str,
        events: Events<'e, Self::Event<'e>>,
        state: &mut GroupState<'_, Self::State>,
    ) -> Result<Self::Output>;
}

/// A [`MapRule`] as a [`Rule`]: what [`export_map!`](crate::export_map) exports, and what a test gives to [`testing`](crate::testing).
pub struct Map<R>(pub R);

impl<R: MapRule> Rule for Map<R> {
    type Event<'e> = R::Event<'e>;
    type State = R::State;
    type Output = R::Output;
    type Parameters = R::Parameters;
    const TIMEOUT: TimeoutKind = R::TIMEOUT;
    const OUTPUT_MODE: OutputMode = OutputMode::Update;
    const FORM: Form = Form::Map;
    const STATE_FORMAT: StateFormat = R::STATE_FORMAT;
    const STATE_SCHEMA: u32 = R::STATE_SCHEMA;
    const READABLE_SCHEMAS: &'static [u32] = R::READABLE_SCHEMAS;

    fn new(parameters: R::Parameters) -> Result<Self> {
        R::new(parameters).map(Map)
    }

    fn call<'e>(
        &self,
        key: &str,
        events: Events<'e, R::Event<'e>>,
        state: &mut GroupState<'_, R::State>,
        outputs: &mut Outputs<R::Output>,
    ) -> Result<()> {
        let output = self.0.call(key, events, state)?;
        outputs.emit(&output)
    }
}
