//! What the guests without the SDK have in common: counting the events of each key, on the columns of the contract.
//!
//! They exist because the SDK never gives a malformed answer and always says which group it is working on.

pub mod bindings;

pub use bindings::exports::keyfold::rule::state_function::{Batch, Failure, Groups, Outcomes};

use bindings::keyfold::rule::progress;

/// A guest. What it does not override is what a good rule would do.
pub trait Guest: 'static {
    /// The description document.
    fn describe() -> Vec<u8> {
        describe_with_timeout("none")
    }

    /// Called before each group, with its number and the keys of the call.
    fn enter(number: usize, _keys: &[&str]) {
        progress::enter(number as u32);
    }

    /// The answer for one group whose count is now `count`.
    fn answer(key: &str, count: u64) -> Answer {
        Answer::counted(key, count)
    }

    /// The answer for the groups of a call.
    fn call(groups: &Groups) -> Result<Outcomes, Failure>
    where
        Self: Sized,
    {
        count::<Self>(groups)
    }

    /// The answer for the whole call, with the keys of the call.
    fn finish(outcomes: Outcomes, _keys: &[&str]) -> Result<Outcomes, Failure> {
        Ok(outcomes)
    }
}

/// The answer for one group: one row of the columns.
pub struct Answer {
    /// What becomes of the state.
    pub verdict: u8,
    /// The new state.
    pub state: Vec<u8>,
    /// The clock of the new timeout.
    pub timeout_clock: u8,
    /// The outputs.
    pub outputs: Vec<Vec<u8>>,
    /// What went wrong.
    pub error: Vec<u8>,
}

/// Keep the state as it is.
pub const VERDICT_KEEP: u8 = 0;
/// Update the state.
pub const VERDICT_UPDATE: u8 = 1;
/// The group failed.
pub const VERDICT_FAILED: u8 = 3;

impl Answer {
    /// Keeps the count and emits it.
    pub fn counted(key: &str, count: u64) -> Self {
        let output = format!(r#"{{"key":{},"count":{count}}}"#, serde_json::Value::from(key));
        Answer {
            verdict: VERDICT_UPDATE,
            state: count.to_string().into_bytes(),
            timeout_clock: 0,
            outputs: vec![output.into_bytes()],
            error: Vec::new(),
        }
    }
}

/// Whether the key is one that misbehaves.
pub fn is_bad(key: &str) -> bool {
    key.starts_with("bad")
}

/// A description document with this timeout kind.
pub fn describe_with_timeout(timeout: &str) -> Vec<u8> {
    describe_with(timeout, "flat-map", "update")
}

/// A description document with this form and this output mode.
pub fn describe_with_form(form: &str, output_mode: &str) -> Vec<u8> {
    describe_with("none", form, output_mode)
}

/// A description document with this schema of states.
pub fn describe_with_schema(state_schema: u32) -> Vec<u8> {
    document("none", "flat-map", "update", state_schema)
}

fn describe_with(timeout: &str, form: &str, output_mode: &str) -> Vec<u8> {
    document(timeout, form, output_mode, 1)
}

fn document(timeout: &str, form: &str, output_mode: &str, state_schema: u32) -> Vec<u8> {
    let document = serde_json::json!({
        "name": "columns",
        "version": env!("CARGO_PKG_VERSION"),
        "form": form,
        "timeout": timeout,
        "output_mode": output_mode,
        "state_schema": state_schema,
        "readable_schemas": [state_schema],
        "state_format": "json",
        "parameters": { "type": "object" },
    });
    document.to_string().into_bytes()
}

/// Counts the events of each group of a call.
fn count<G: Guest>(groups: &Groups) -> Result<Outcomes, Failure> {
    let count = groups.key_ends.len();
    let keys: Vec<&str> = (0..count).map(|number| text(item(&groups.keys, &groups.key_ends, number))).collect();
    let mut outcomes = empty_outcomes();
    for (number, key) in keys.iter().enumerate() {
        G::enter(number, &keys);
        let before = text(item(&groups.states, &groups.state_ends, number)).parse().unwrap_or(0);
        let first = if number == 0 { 0 } else { groups.event_ends[number - 1] };
        push(&mut outcomes, &G::answer(key, before + u64::from(groups.event_ends[number] - first)));
    }
    G::finish(outcomes, &keys)
}

fn push(outcomes: &mut Outcomes, answer: &Answer) {
    outcomes.verdicts.push(answer.verdict);
    outcomes.states.extend(&answer.state);
    outcomes.state_ends.push(outcomes.states.len() as u32);
    outcomes.timeout_clocks.push(answer.timeout_clock);
    outcomes.timeouts_ms.push(0);
    for output in &answer.outputs {
        outcomes.outputs.extend(output);
        outcomes.output_ends.push(outcomes.outputs.len() as u32);
    }
    outcomes.group_output_ends.push(outcomes.output_ends.len() as u32);
    outcomes.errors.extend(&answer.error);
    outcomes.error_ends.push(outcomes.errors.len() as u32);
}

/// An answer for no groups.
pub fn empty_outcomes() -> Outcomes {
    Outcomes {
        verdicts: Vec::new(),
        states: Vec::new(),
        state_ends: Vec::new(),
        timeout_clocks: Vec::new(),
        timeouts_ms: Vec::new(),
        outputs: Vec::new(),
        output_ends: Vec::new(),
        group_output_ends: Vec::new(),
        errors: Vec::new(),
        error_ends: Vec::new(),
        ext: Vec::new(),
    }
}

fn item<'b>(bytes: &'b [u8], ends: &[u32], number: usize) -> &'b [u8] {
    let start = if number == 0 { 0 } else { ends[number - 1] as usize };
    &bytes[start..ends[number] as usize]
}

/// Keys and states are UTF-8 by the contract; anything else would be the host's fault, which no guest looks into.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Makes a [`Guest`] the rule of its crate.
#[macro_export]
macro_rules! export {
    ($guest:ty) => {
        const _: () = {
            use $crate::bindings::exports::keyfold::rule::state_function as contract;

            struct Component;

            impl contract::Guest for Component {
                fn describe() -> Vec<u8> {
                    <$guest as $crate::Guest>::describe()
                }

                fn configure(_: Vec<u8>) -> Result<(), contract::Failure> {
                    Ok(())
                }

                fn call(_: contract::Batch, groups: contract::Groups) -> Result<contract::Outcomes, contract::Failure> {
                    <$guest as $crate::Guest>::call(&groups)
                }
            }

    $crate::bindings::export!(Component with_types_in $crate::bindings);
        };
    };
}
