//! [`Sandbox`]: one instance of a rule, for the calls of one batch in one partition.

use super::answer::{Answer, AnswerColumns, AnswerRules, shortened};
use super::bindings::Rule;
use super::bindings::exports::keyfold::rule::state_function as contract;
use super::bindings::migration::exports::keyfold::rule::migration::Guest as Migration;
use super::component::Component;
use super::error::{CallError, Reason};
use super::migrated::Migrated;
use super::store::{CallTime, FUEL_BETWEEN_DEADLINE_CHECKS, HostStop, Log, Meter, StoreData, deadline_passed};
use crate::description::{Description, Form, TimeoutKind};
use crate::fair::Turn;
use crate::group::{BatchContext, GroupColumns};
use crate::limits::Limits;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use wasmtime::{Store, Trap};

/// Bytes that one answer may bring into the host, all columns together. Above what a call of 1 MiB of input ever needs;
/// wasmtime stops copying there.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Fuel of what is not a group: starting, describing, configuring.
const START_FUEL: u64 = 200_000_000;

const FLAG_HAS_WATERMARK: u32 = 1 << 1;
const FLAG_BATCH_QUERY: u32 = 1 << 2;

/// One instance of a rule. It serves one batch of one partition, so that nothing the rule remembers outlives the batch, and it
/// is useless after an error: wasmtime lets nothing enter a store again that trapped.
pub struct Sandbox {
    store: Store<StoreData>,
    rule: Rule,
    /// With which it computes.
    turn: Arc<Turn>,
    /// None when the component exports none.
    migration: Option<Migration>,
    /// What its description allows its answers to be.
    form: Form,
    timeout: TimeoutKind,
}

impl Sandbox {
    /// A fresh instance with its parameters set.
    pub fn start(
        component: &Component,
        limits: &Limits,
        parameters: &[u8],
        context: &BatchContext,
    ) -> Result<Self, CallError> {
        Self::start_on(&Arc::default(), component, limits, parameters, context)
    }

    /// A fresh instance with its parameters set, which computes when it is its turn.
    pub fn start_on(
        turn: &Arc<Turn>,
        component: &Component,
        limits: &Limits,
        parameters: &[u8],
        context: &BatchContext,
    ) -> Result<Self, CallError> {
        let mut store = new_store(component, limits, context)?;
        let time = CallTime::start(turn, limits);
        let started = instantiate(component, &mut store, &time, limits);
        let (rule, migration) = started.map_err(|error| explain(&mut store, error))?;
        let Description { form, timeout, .. } = *component.description();
        let mut sandbox = Sandbox { store, rule, turn: Arc::clone(turn), migration, form, timeout };
        sandbox.configure(parameters, &time)?;
        Ok(sandbox)
    }

    fn configure(&mut self, parameters: &[u8], time: &CallTime) -> Result<(), CallError> {
        let limits = self.store.data().limits.clone();
        let configured =
            drive(self.rule.keyfold_rule_state_function().call_configure(&mut self.store, parameters), time, &limits);
        match configured {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(CallError::new(
                Reason::CallRefused,
                format!("the rule refused its parameters: {}", shortened(failure.message.as_bytes())),
            )),
            Err(error) => Err(explain(&mut self.store, error)),
        }
    }

    /// Runs the rule over groups. After an error the sandbox must be dropped.
    pub fn call(&mut self, context: &BatchContext, groups: &GroupColumns) -> Result<Answer, CallError> {
        let limits = self.store.data().limits.clone();
        let time = CallTime::start(&self.turn, &limits);
        let events = (0..groups.len()).map(|group| groups.events_of(group)).collect();
        prepare(&mut self.store, events, groups.payload_ends.len() as u64, &limits, time.clone())?;
        let batch = contract::Batch {
            partition: context.partition.0,
            id: context.batch.0,
            time_ms: context.time.0,
            watermark_ms: context.watermark.map_or(0, |watermark| watermark.0),
            seed: &context.seed,
            batch_flags: if context.watermark.is_some() { FLAG_HAS_WATERMARK } else { 0 }
                | if context.batch_query { FLAG_BATCH_QUERY } else { 0 },
            ext: &[],
        };
        let columns = contract::Groups {
            keys: &groups.keys,
            key_ends: &groups.key_ends,
            states: &groups.states,
            state_ends: &groups.state_ends,
            state_schemas: &groups.state_schemas,
            group_flags: &groups.flags,
            event_ends: &groups.event_ends,
            event_times_ms: &groups.event_times_ms,
            payloads: &groups.payloads,
            payload_ends: &groups.payload_ends,
            ext: &[],
        };
        let called =
            drive(self.rule.keyfold_rule_state_function().call_call(&mut self.store, batch, columns), &time, &limits);
        let outcomes = match called {
            Ok(Ok(outcomes)) => outcomes,
            Ok(Err(failure)) => {
                let text = shortened(failure.message.as_bytes());
                let message = format!("the rule refused the call with code {}: {text}", failure.code);
                return Err(CallError::new(Reason::CallRefused, message));
            }
            Err(error) => return Err(explain(&mut self.store, error)),
        };
        let rules =
            AnswerRules { groups: groups.len(), context, limits: &limits, timeout: self.timeout, form: self.form };
        let mut answer = Answer::check(columns_of(outcomes), &rules)?;
        let fuel_left = self.store.get_fuel().unwrap_or(0);
        let data = self.store.data_mut();
        data.meter.settle(fuel_left);
        answer.fuel = std::mem::take(&mut data.meter.spent);
        answer.log = std::mem::take(&mut data.log.lines);
        answer.log_lines_dropped = data.log.dropped;
        Ok(answer)
    }

    /// Lets the rule rewrite states of one schema as it writes them. After an error the sandbox must be dropped.
    pub fn migrate(
        &mut self,
        from_schema: u32,
        component: &Component,
        states: &[&[u8]],
    ) -> Result<Migrated, CallError> {
        let Some(migration) = &self.migration else {
            return Err(CallError::new(Reason::MigrationFailed, "the rule exports no migration"));
        };
        let limits = self.store.data().limits.clone();
        let time = CallTime::start(&self.turn, &limits);
        let to_schema = component.description().state_schema;
        // A rule may say which state it works on as it says which group: each is entered with the fuel of a group without events.
        prepare(&mut self.store, vec![0; states.len()], 0, &limits, time.clone())?;
        let mut ends = Vec::with_capacity(states.len());
        let mut end = 0;
        for state in states {
            end += state.len() as u32;
            ends.push(end);
        }
        let bytes = states.concat();
        let called =
            drive(migration.call_migrate(&mut self.store, from_schema, to_schema, &bytes, &ends), &time, &limits);
        match called {
            Ok(Ok(migrated)) => Migrated::check(migrated.states, migrated.state_ends, states.len(), &limits),
            Ok(Err(failure)) => {
                let text = shortened(failure.message.as_bytes());
                let message = format!("the rule refused with code {}: {text}", failure.code);
                let group = self.store.data().meter.group;
                Err(CallError { group, ..CallError::new(Reason::CallRefused, message) })
            }
            Err(error) => Err(explain(&mut self.store, error)),
        }
    }

    /// Bytes of memory that the instance takes now.
    pub fn memory_bytes(&self) -> u64 {
        self.store.data().memory.bytes()
    }
}

/// Gives the rule fuel for a call with so many events in each of its groups.
fn prepare(
    store: &mut Store<StoreData>,
    events: Vec<u32>,
    events_total: u64,
    limits: &Limits,
    time: CallTime,
) -> Result<(), CallError> {
    // A rule that never says where it is gets the fuel of one group with all the events; when that does not do, the
    // call fails and its groups are tried in smaller calls.
    let fuel = limits.fuel(events_total);
    let data = store.data_mut();
    data.meter = Meter { events, budget: fuel, time: Some(time), ..Meter::default() };
    data.log = Log::default();
    store.set_fuel(fuel).map_err(|error| CallError::new(Reason::Trap, error.to_string()))
}

/// An instance of the rule, and its migration when it has one.
fn instantiate(
    component: &Component,
    store: &mut Store<StoreData>,
    time: &CallTime,
    limits: &Limits,
) -> wasmtime::Result<(Rule, Option<Migration>)> {
    let instance = drive(component.pre().instantiate_async(&mut *store), time, limits)?;
    let rule = component.indices().load(&mut *store, &instance)?;
    let migration = component.migration().map(|indices| indices.load(&mut *store, &instance)).transpose()?;
    Ok((rule, migration))
}

/// The description document of a component, from an instance made for it.
pub(super) fn describe(component: &Component, limits: &Limits, context: &BatchContext) -> Result<Vec<u8>, CallError> {
    let mut store = new_store(component, limits, context)?;
    let time = CallTime::start(&Arc::default(), limits);
    let started = instantiate(component, &mut store, &time, limits);
    let (rule, _) = started.map_err(|error| explain(&mut store, error))?;
    let described = drive(rule.keyfold_rule_state_function().call_describe(&mut store), &time, limits);
    described.map_err(|error| explain(&mut store, error))
}

fn new_store(component: &Component, limits: &Limits, context: &BatchContext) -> Result<Store<StoreData>, CallError> {
    let mut store = Store::new(component.engine(), StoreData::new(limits, context.time, context.seed));
    store.data_mut().meter.budget = START_FUEL;
    store.limiter(|data| &mut data.memory);
    store.set_hostcall_fuel(ANSWER_BYTES_MAX);
    let fuel =
        store.set_fuel(START_FUEL).and_then(|()| store.fuel_async_yield_interval(Some(FUEL_BETWEEN_DEADLINE_CHECKS)));
    fuel.map_err(|error| CallError::new(Reason::Trap, error.to_string()))?;
    Ok(store)
}

/// Runs a call to its end on this thread. wasmtime gives control back now and then: then others may compute, and the deadline is
/// looked at.
fn drive<T>(call: impl Future<Output = wasmtime::Result<T>>, time: &CallTime, limits: &Limits) -> wasmtime::Result<T> {
    let _computing = time.turn().begin();
    let mut call = pin!(call);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match call.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending if time.is_over() => return Err(deadline_passed(limits)),
            Poll::Pending => {}
        }
    }
}

/// Turns what stopped a call into a reason, with the group that was being worked on and its fuel.
fn explain(store: &mut Store<StoreData>, error: wasmtime::Error) -> CallError {
    let fuel_left = store.get_fuel().unwrap_or(0);
    let data = store.data_mut();
    let (reason, message) = match (error.downcast_ref::<HostStop>(), error.downcast_ref::<Trap>()) {
        (Some(stop), _) => (stop.0.reason, stop.0.message.clone()),
        (None, Some(Trap::OutOfFuel)) => {
            let Meter { budget, events, .. } = &data.meter;
            let message = match events.is_empty() {
                true => format!("the rule used up the {budget} units of fuel for its start: it loops without end"),
                false => format!(
                    "the rule used up its fuel of {budget} units: it loops without end, or fuel-per-group and \
                     fuel-per-event are too low"
                ),
            };
            (Reason::OutOfFuel, message)
        }
        (None, Some(Trap::StackOverflow)) => {
            (Reason::StackOverflow, "the rule recursed until its stack was full".to_owned())
        }
        (None, Some(trap)) => match data.log.panic.take() {
            Some(panic) => (Reason::Panic, panic),
            None => (Reason::Trap, format!("the rule trapped: {trap}")),
        },
        (None, None) => unknown_stop(&error),
    };
    // The work after the last group's entry may concern all groups; only a trap inside a group blames it.
    let group = data.meter.group.filter(|_| !matches!(reason, Reason::InvalidProgress | Reason::OutputLimit));
    CallError { reason, message, group, fuel: data.meter.used(fuel_left) }
}

/// What wasmtime reports without a type of its own: mostly answers that are too large or that point outside the memory.
fn unknown_stop(error: &wasmtime::Error) -> (Reason, String) {
    let text = format!("{error:#}");
    if text.contains("fuel allocated for hostcalls") {
        let message = format!("the answer has more than {} MiB: write less", ANSWER_BYTES_MAX / (1024 * 1024));
        return (Reason::OutputLimit, message);
    }
    (Reason::MalformedAnswer, format!("the call could not be completed: {text}"))
}

fn columns_of(outcomes: contract::Outcomes) -> AnswerColumns {
    AnswerColumns {
        verdicts: outcomes.verdicts,
        states: outcomes.states,
        state_ends: outcomes.state_ends,
        timeout_clocks: outcomes.timeout_clocks,
        timeouts_ms: outcomes.timeouts_ms,
        outputs: outcomes.outputs,
        output_ends: outcomes.output_ends,
        group_output_ends: outcomes.group_output_ends,
        errors: outcomes.errors,
        error_ends: outcomes.error_ends,
    }
}
