//! Between the columns of the contract and [`Rule::call`].

use crate::bindings::exports::keyfold::rule::state_function::{Batch, Failure, Groups, Outcomes};
use crate::bindings::migration::exports::keyfold::rule::migration::{self, Migrated};
use crate::group_state::{Change, Context};
use crate::migration::migrate_one;
use crate::{Error, Events, GroupState, Migrate, Outputs, Result, Rule, TimeoutClock};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

/// A rule after `configure`.
pub struct Configured<R>(OnceCell<R>);

impl<R> Configured<R> {
    /// Not configured yet.
    pub const fn new() -> Self {
        Configured(OnceCell::new())
    }
}

impl<R> Default for Configured<R> {
    fn default() -> Self {
        Configured::new()
    }
}

const CODE_PARAMETERS: u32 = 1;
const CODE_STATE: u32 = 2;
const CODE_OTHER: u32 = 3;

const FLAG_HAS_WATERMARK: u32 = 1 << 1;
const FLAG_BATCH_QUERY: u32 = 1 << 2;
const GROUP_FLAG_TIMED_OUT: u8 = 1;
const GROUP_FLAG_INITIAL: u8 = 1 << 1;

/// The description document.
pub fn describe<R: Rule>(name: &str, version: &str) -> Vec<u8> {
    crate::log::report_panics();
    let mut document = serde_json::json!({
        "name": name,
        "version": version,
        "sdk": concat!("keyfold-sdk ", env!("CARGO_PKG_VERSION")),
        "form": R::FORM.name(),
        "timeout": R::TIMEOUT.name(),
        "output_mode": R::OUTPUT_MODE.name(),
        "state_schema": R::STATE_SCHEMA,
        "readable_schemas": R::READABLE_SCHEMAS,
        "state_format": R::STATE_FORMAT.name(),
        "parameters": schemars::schema_for!(R::Parameters),
    });
    if let Some(members) = crate::members::members_of::<R::Event<'_>>() {
        document["event_members"] = members.into();
    }
    document.to_string().into_bytes()
}

/// Decodes the parameters and makes the rule.
pub fn configure<R: Rule>(rule: &Configured<R>, parameters: &[u8]) -> Result<(), Failure> {
    crate::log::report_panics();
    let refuse = |message: String| Failure { code: CODE_PARAMETERS, message };
    let parameters = serde_json::from_slice(parameters).map_err(|error| refuse(error.to_string()))?;
    let made = R::new(parameters).map_err(|error| refuse(error.to_string()))?;
    rule.0.set(made).map_err(|_| Failure { code: CODE_OTHER, message: "configure was called twice".into() })
}

/// Calls the rule for each group.
pub fn call<R: Rule>(rule: &Configured<R>, batch: &Batch, groups: &Groups) -> Result<Outcomes, Failure> {
    let Some(rule) = rule.0.get() else {
        return Err(Failure { code: CODE_OTHER, message: "call before configure".into() });
    };
    // Each text is looked at once here, and not again whenever a piece of it is decoded.
    let text = |bytes, what| {
        let refuse = |error| Failure { code: CODE_OTHER, message: format!("the {what} are not UTF-8: {error}") };
        std::str::from_utf8(bytes).map_err(refuse)
    };
    let texts = Texts { keys: text(&groups.keys, "keys")?, payloads: text(&groups.payloads, "events")? };
    let count = groups.key_ends.len();
    let mut answer = Answer::<R::Output>::with_capacity(count);
    let mut buffer = Vec::new();
    for number in 0..count {
        enter(number);
        let mut state =
            GroupState::new(given(groups, number), std::mem::take(&mut buffer), context::<R>(batch, groups, number));
        let outputs = (answer.outputs.bytes.len(), answer.outputs.ends.len());
        match call_one(rule, groups, &texts, number, &mut state, &mut answer.outputs) {
            Ok(()) => answer.push(&state),
            Err(error) => {
                answer.outputs.bytes.truncate(outputs.0);
                answer.outputs.ends.truncate(outputs.1);
                answer.push_failed(&error);
            }
        }
        buffer = state.written;
    }
    Ok(answer.finish())
}

/// Rewrites states of one schema as this version writes them.
pub fn migrate<R: Rule + Migrate<R::State>>(
    from_schema: u32,
    to_schema: u32,
    states: &[u8],
    state_ends: &[u32],
) -> Result<Migrated, migration::Failure> {
    crate::log::report_panics();
    let refuse = |message: String| migration::Failure { code: CODE_STATE, message };
    if to_schema != R::STATE_SCHEMA {
        return Err(refuse(format!("schema {to_schema} is asked for, and this version writes {}", R::STATE_SCHEMA)));
    }
    let mut migrated = Migrated { states: Vec::new(), state_ends: Vec::with_capacity(state_ends.len()) };
    for number in 0..state_ends.len() {
        enter(number);
        let old = item(states, state_ends, number);
        // The host knows from the last one that was entered whose state it is, and tries the others without it.
        migrate_one::<R>(from_schema, old, &mut migrated.states).map_err(|error| refuse(error.to_string()))?;
        migrated.state_ends.push(migrated.states.len() as u32);
    }
    Ok(migrated)
}

/// The columns that are text.
struct Texts<'g> {
    keys: &'g str,
    payloads: &'g str,
}

fn call_one<R: Rule>(
    rule: &R,
    groups: &Groups,
    texts: &Texts<'_>,
    number: usize,
    state: &mut GroupState<'_, R::State>,
    outputs: &mut Outputs<R::Output>,
) -> Result<()> {
    let key = &texts.keys[range(&groups.key_ends, number)];
    let first = if number == 0 { 0 } else { groups.event_ends[number - 1] as usize };
    let last = groups.event_ends[number] as usize;
    let start = if first == 0 { 0 } else { groups.payload_ends[first - 1] as usize };
    let times_ms = if groups.event_times_ms.is_empty() { &[] } else { &groups.event_times_ms[first..last] };
    let events = Events::new(texts.payloads, &groups.payload_ends[first..last], start, times_ms);
    rule.call(key, events, state, outputs)
}

fn given(groups: &Groups, number: usize) -> Option<Cow<'_, [u8]>> {
    (groups.state_schemas[number] != 0).then(|| Cow::Borrowed(item(&groups.states, &groups.state_ends, number)))
}

fn context<R: Rule>(batch: &Batch, groups: &Groups, number: usize) -> Context {
    Context {
        timed_out: groups.group_flags[number] & GROUP_FLAG_TIMED_OUT != 0,
        initial: groups.group_flags[number] & GROUP_FLAG_INITIAL != 0,
        batch_query: batch.batch_flags & FLAG_BATCH_QUERY != 0,
        timeout_kind: R::TIMEOUT,
        format: R::STATE_FORMAT,
        processing_time_ms: batch.time_ms,
        watermark_ms: (batch.batch_flags & FLAG_HAS_WATERMARK != 0).then_some(batch.watermark_ms),
    }
}

fn item<'b>(bytes: &'b [u8], ends: &[u32], number: usize) -> &'b [u8] {
    &bytes[range(ends, number)]
}

fn range(ends: &[u32], number: usize) -> Range<usize> {
    let start = if number == 0 { 0 } else { ends[number - 1] as usize };
    start..ends[number] as usize
}

fn enter(number: usize) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::keyfold::rule::progress::enter(number as u32);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = number;
}

/// The answer's columns while they grow.
struct Answer<O> {
    outcomes: Outcomes,
    outputs: Outputs<O>,
}

impl<O> Answer<O> {
    fn with_capacity(count: usize) -> Self {
        let outcomes = Outcomes {
            verdicts: Vec::with_capacity(count),
            states: Vec::new(),
            state_ends: Vec::with_capacity(count),
            timeout_clocks: Vec::with_capacity(count),
            timeouts_ms: Vec::with_capacity(count),
            outputs: Vec::new(),
            output_ends: Vec::new(),
            group_output_ends: Vec::with_capacity(count),
            errors: Vec::new(),
            error_ends: Vec::with_capacity(count),
            ext: Vec::new(),
        };
        Answer { outcomes, outputs: Outputs::new() }
    }

    fn push<S>(&mut self, state: &GroupState<'_, S>) {
        if state.change == Change::Update {
            self.outcomes.states.extend_from_slice(&state.written);
        }
        let (clock, at_ms) = match state.timeout {
            None => (0, 0),
            Some(timeout) if timeout.clock == TimeoutClock::ProcessingTime => (1, timeout.at_ms),
            Some(timeout) => (2, timeout.at_ms),
        };
        self.push_row(state.change as u8, clock, at_ms);
    }

    fn push_failed(&mut self, error: &Error) {
        self.outcomes.errors.extend_from_slice(error.to_string().as_bytes());
        const VERDICT_FAILED: u8 = 3;
        self.push_row(VERDICT_FAILED, 0, 0);
    }

    fn push_row(&mut self, verdict: u8, clock: u8, at_ms: i64) {
        self.outcomes.verdicts.push(verdict);
        self.outcomes.state_ends.push(self.outcomes.states.len() as u32);
        self.outcomes.timeout_clocks.push(clock);
        self.outcomes.timeouts_ms.push(at_ms);
        self.outcomes.group_output_ends.push(self.outputs.ends.len() as u32);
        self.outcomes.error_ends.push(self.outcomes.errors.len() as u32);
    }

    fn finish(mut self) -> Outcomes {
        self.outcomes.outputs = self.outputs.bytes;
        self.outcomes.output_ends = self.outputs.ends;
        self.outcomes
    }
}
