//! What counting fuel costs: the same calls of 1,000 groups without fuel, with fuel, and with the fuel filled up for each group.
//! wasmtime is used directly, because the host has no switch for going without.

use anyhow::{Result, anyhow};
use contract::Rule;
use contract::exports::keyfold::rule::state_function::{Batch, Groups};
use divan::Bencher;
use divan::counter::ItemsCount;
use keyfold_bench::rules::{self, GROUPS};
use wasmtime::component::{Component, Linker, WasmList};
use wasmtime::{Config, Engine, Store, StoreContextMut};

#[allow(missing_docs, unused_qualifications, clippy::all, reason = "generated")]
mod contract {
    wasmtime::component::bindgen!({ path: "../wit", world: "rule" });
}

/// More than any call uses.
const FUEL: u64 = u64::MAX / 2;
const METERINGS: [Metering; 3] = [Metering::None, Metering::Call, Metering::Group];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Metering {
    None,
    Call,
    Group,
}

/// An instance of a rule.
struct Instance {
    store: Store<Metering>,
    rule: Rule,
}

fn main() {
    divan::main();
}

#[divan::bench(args = METERINGS, consts = [0, 1, 4])]
fn running_count<const EVENTS: usize>(bencher: Bencher, metering: Metering) {
    call(bencher, "running-count", metering, EVENTS);
}

#[divan::bench(args = METERINGS, consts = [0, 1, 4])]
fn card_sessions<const EVENTS: usize>(bencher: Bencher, metering: Metering) {
    call(bencher, "card-sessions", metering, EVENTS);
}

fn call(bencher: Bencher, name: &str, metering: Metering, events: usize) {
    let mut instance = Instance::start(name, metering).expect("it starts");
    let (batch, groups) = (batch(), columns(events));
    let bencher = bencher.counter(ItemsCount::new(GROUPS * events.max(1)));
    bencher.bench_local(|| instance.call(&batch, &groups).expect("nothing fails"));
}

impl Instance {
    fn start(name: &str, metering: Metering) -> Result<Self> {
        let mut config = Config::new();
        config.concurrency_support(false).consume_fuel(metering != Metering::None).cranelift_nan_canonicalization(true);
        let engine = Engine::new(&config)?;
        let mut linker = Linker::<Metering>::new(&engine);
        linker.instance("keyfold:rule/log@0.1.0")?.func_wrap("write", |_, (_, _): (u8, WasmList<u8>)| Ok(()))?;
        linker.instance("keyfold:rule/progress@0.1.0")?.func_wrap("enter", enter)?;
        let mut store = Store::new(&engine, metering);
        if metering != Metering::None {
            store.set_fuel(FUEL)?;
        }
        let component = Component::new(&engine, rules::read(&rules::example(name))?)?;
        let rule = Rule::instantiate(&mut store, &component, &linker)?;
        let configured = rule.keyfold_rule_state_function().call_configure(&mut store, b"{}")?;
        configured.map_err(|failure| anyhow!(failure.message))?;
        Ok(Instance { store, rule })
    }

    fn call(&mut self, batch: &Batch, groups: &Groups) -> Result<()> {
        let outcomes = self.rule.keyfold_rule_state_function().call_call(&mut self.store, batch, groups)?;
        outcomes.map(drop).map_err(|failure| anyhow!(failure.message))
    }
}

fn enter(mut store: StoreContextMut<'_, Metering>, (_,): (u32,)) -> wasmtime::Result<()> {
    if *store.data() == Metering::Group {
        store.get_fuel()?;
        store.set_fuel(FUEL)?;
    }
    Ok(())
}

fn batch() -> Batch {
    const HAS_WATERMARK: u32 = 1 << 1;
    let context = rules::context();
    Batch {
        partition: context.partition.0,
        id: context.batch.0,
        time_ms: context.time.0,
        watermark_ms: context.time.0,
        seed: context.seed.to_vec(),
        batch_flags: HAS_WATERMARK,
        ext: Vec::new(),
    }
}

fn columns(events: usize) -> Groups {
    let groups = rules::groups(events);
    Groups {
        keys: groups.keys,
        key_ends: groups.key_ends,
        states: groups.states,
        state_ends: groups.state_ends,
        state_schemas: groups.state_schemas,
        group_flags: groups.flags,
        event_ends: groups.event_ends,
        event_times_ms: groups.event_times_ms,
        payloads: groups.payloads,
        payload_ends: groups.payload_ends,
        ext: Vec::new(),
    }
}
