//! What the guests with the SDK have in common: a rule that counts the events of each key, and one place where a guest
//! does something else as well.

pub use keyfold_sdk;
pub use serde::de::IgnoredAny;

use keyfold_sdk::prelude::*;
use serde::ser::Serializer;
use serde_json::Value;
use std::marker::PhantomData;

/// What nearly every guest uses.
pub mod prelude {
    pub use crate::{Call, Guest, Output, State};
    pub use keyfold_sdk::prelude::*;
}

/// What a guest does besides counting.
pub trait Guest: 'static {
    /// Which timeouts the guest sets.
    const TIMEOUT: TimeoutKind = TimeoutKind::None;

    /// Whether [`Guest::act`] is called for this key. Keys that are not concerned are only counted, so that a test can see
    /// that they are unharmed.
    fn concerns(key: &str) -> bool {
        key.starts_with("bad")
    }

    /// The output of a call with events.
    fn output(key: &str, count: u64) -> Output {
        Output::of(key).with("count", count)
    }

    /// The output of a call for a timeout, after which no state is left.
    fn timed_out(key: &str) -> Result<Output> {
        Ok(Output::of(key).with("timed_out", true))
    }

    /// What the guest is there for. State and output of the call are already written, so that a test can see that
    /// nothing is kept of a group that fails.
    fn act(call: &mut Call<'_, '_>) -> Result<()>;
}

/// One call for a key that has events, after they were counted.
pub struct Call<'c, 's> {
    /// The key.
    pub key: &'c str,
    /// The count, the events of this call included.
    pub count: u64,
    /// The events of this call.
    pub events: Events<'c, IgnoredAny>,
    /// The state, already updated.
    pub state: &'c mut GroupState<'s, State>,
    /// The outputs, the count already among them.
    pub out: &'c mut Outputs<Output>,
}

impl Call<'_, '_> {
    /// The event time of the newest event.
    pub fn event_time_ms(&self) -> Result<i64> {
        event_time_ms(&self.events)
    }
}

/// The event time of the newest of some events.
pub fn event_time_ms(events: &Events<IgnoredAny>) -> Result<i64> {
    let mut newest_ms = i64::MIN;
    for event in events.clone() {
        newest_ms = newest_ms.max(event?.time_ms()?);
    }
    Ok(newest_ms)
}

/// The state of a key.
#[derive(Default, Serialize, Deserialize)]
pub struct State {
    /// How many events the key had.
    pub count: u64,
    /// Empty, except in the guest that makes its state too large.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ballast: String,
}

/// An output: a JSON object whose members stay in the order in which they were added, so that bytes can be compared.
pub struct Output(Vec<(&'static str, Value)>);

impl Output {
    /// `{"key": …}`
    pub fn of(key: &str) -> Self {
        Output(vec![("key", key.into())])
    }

    /// Adds a member.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push((name, value.into()));
        self
    }
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// The rule of a guest.
pub struct Counting<G>(PhantomData<G>);

impl<G: Guest> Rule for Counting<G> {
    type Event<'e> = IgnoredAny;
    type State = State;
    type Output = Output;
    type Parameters = NoParameters;
    const TIMEOUT: TimeoutKind = G::TIMEOUT;
    const OUTPUT_MODE: OutputMode = OutputMode::Update;

    fn new(_: NoParameters) -> Result<Self> {
        Ok(Counting(PhantomData))
    }

    fn call(
        &self,
        key: &str,
        events: Events<IgnoredAny>,
        state: &mut GroupState<State>,
        out: &mut Outputs<Output>,
    ) -> Result<()> {
        if state.has_timed_out() {
            state.remove();
            return out.emit(&G::timed_out(key)?);
        }
        let count = count(&events, state)?;
        out.emit(&G::output(key, count))?;
        if G::concerns(key) { G::act(&mut Call { key, count, events, state, out }) } else { Ok(()) }
    }
}

/// Adds the events to the count of the key.
pub fn count(events: &Events<IgnoredAny>, state: &mut GroupState<State>) -> Result<u64> {
    let count = state.get_option()?.unwrap_or_default().count + events.len() as u64;
    state.update(&State { count, ..State::default() })?;
    Ok(count)
}

/// Makes a [`Guest`] the rule of its crate.
#[macro_export]
macro_rules! export {
    ($guest:ty) => {
        $crate::keyfold_sdk::export!($crate::Counting<$guest>);
    };
}
