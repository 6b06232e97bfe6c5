//! What counting fuel costs: the same calls of the same rule without fuel, with fuel, and with fuel filled up for each group.
//!
//! `cargo run --release -p keyfold-bench --bin fuel`, after `cargo xtask build`. It uses wasmtime directly, because the host has
//! no switch for going without.

use anyhow::{Context, Result};
use contract::Rule;
use contract::exports::keyfold::rule::state_function::{Batch, Groups};
use keyfold_bench::{GROUPS, example, groups, shortest};
use wasmtime::component::{Component, Linker, WasmList};
use wasmtime::{Config, Engine, Store, StoreContextMut};

#[allow(missing_docs, unused_qualifications, clippy::all, reason = "generated")]
mod contract {
    wasmtime::component::bindgen!({ path: "../wit", world: "rule" });
}

const RUNS: usize = 300;
/// More than any call uses.
const FUEL: u64 = u64::MAX / 2;

#[derive(Clone, Copy, PartialEq)]
enum Metering {
    None,
    Call,
    Group,
}

fn main() -> Result<()> {
    println!("{:<46}{:>10}{:>10}{:>10}", format!("ns per group, {GROUPS} groups, events each:"), 0, 1, 4);
    for name in ["running-count", "card-sessions"] {
        for (metering, what) in
            [(Metering::None, "no fuel"), (Metering::Call, "fuel"), (Metering::Group, "fuel, filled up for each group")]
        {
            print!("{:<46}", format!("{name}, {what}"));
            for events in [0, 1, 4] {
                print!("{:>10.0}", nanos_per_group(name, metering, events)?);
            }
            println!();
        }
    }
    Ok(())
}

fn nanos_per_group(name: &str, metering: Metering, events: usize) -> Result<f64> {
    let path = example(name);
    let bytes = std::fs::read(&path).with_context(|| format!("{}: run `cargo xtask build`", path.display()))?;
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
    let rule = Rule::instantiate(&mut store, &Component::new(&engine, bytes)?, &linker)?;
    let function = rule.keyfold_rule_state_function();
    function.call_configure(&mut store, b"{}")?.map_err(|failure| anyhow::anyhow!(failure.message))?;
    let (batch, groups) = (batch(), columns(events));
    let time = shortest(RUNS, || {
        let outcomes = function.call_call(&mut store, &batch, &groups)?;
        outcomes.map(drop).map_err(|failure| anyhow::anyhow!(failure.message))
    })?;
    Ok(time.as_nanos() as f64 / GROUPS as f64)
}

fn enter(mut store: StoreContextMut<'_, Metering>, (_,): (u32,)) -> wasmtime::Result<()> {
    if *store.data() == Metering::Group {
        store.get_fuel()?;
        store.set_fuel(FUEL)?;
    }
    Ok(())
}

fn batch() -> Batch {
    let time_ms = 1_767_571_200_000;
    const HAS_WATERMARK: u32 = 1 << 1;
    Batch {
        partition: 0,
        id: 1,
        time_ms,
        watermark_ms: time_ms,
        seed: vec![7; 16],
        batch_flags: HAS_WATERMARK,
        ext: Vec::new(),
    }
}

fn columns(events: usize) -> Groups {
    let groups = groups(events);
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
