//! Rules to measure with: the examples and the guests of the tests.
//!
//! Components are compiled by a child process, which is this program again: see [`compile_as_child`].

use anyhow::{Context, Result};
use keyfold::event::{BatchId, Millis, PartitionId};
use keyfold::group::{BatchContext, GroupColumns};
use keyfold::limits::Limits;
use keyfold::runner::{Parked, RolledBack, RunnerEvents};
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::{self, Compiler};
use keyfold::wasm::component::Loader;
use keyfold::wasm::{Component, Sandbox};
use std::path::{Path, PathBuf};

/// The groups of one call: as many as the host puts into one.
pub const GROUPS: usize = 1000;

const TIME: Millis = Millis(1_767_571_200_000);

/// The target folder, in which this program lies: the one that has guests.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let found = program.ancestors().find(|folder| folder.join("guests").is_dir());
    found.unwrap_or(Path::new("target")).to_owned()
}

/// The component of an example.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).join("rule.wasm")
}

/// The component of a guest of the tests.
pub fn guest(name: &str) -> PathBuf {
    target().join("guests").join(format!("{name}.wasm"))
}

/// The bytes of a component.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{}: run `cargo xtask build`", path.display()))
}

/// Compiles the component on standard input, when this program was started for that, and tells whether it was. The `main` of what
/// uses [`loader`] or [`compiler`] calls it first.
pub fn compile_as_child() -> Result<bool> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some(compile::SUBCOMMAND) {
        return Ok(false);
    }
    let mut number =
        || args.next().context("the compiling child needs two limits")?.parse().map_err(anyhow::Error::from);
    compile::child_main(number()?, number()?)?;
    Ok(true)
}

/// Compiles with this program.
pub fn compiler() -> Result<Compiler> {
    Compiler::this_binary()
}

/// Loads components, and keeps compiled code for the next time.
pub fn loader() -> Result<Loader> {
    Loader::new(Limits::default(), Cache::open(&target().join("bench-cache"))?, compiler()?)
}

/// Loads a component.
pub fn load(path: &Path) -> Result<Component> {
    loader()?.load(&read(path)?)
}

/// An instance without parameters.
pub fn start(component: &Component) -> Result<Sandbox> {
    Ok(Sandbox::start(component, &Limits::default(), b"{}", &context())?)
}

/// A batch in the middle of a stream.
pub fn context() -> BatchContext {
    BatchContext {
        partition: PartitionId(0),
        batch: BatchId(1),
        time: TIME,
        watermark: Some(TIME),
        seed: [7; 16],
        batch_query: false,
    }
}

/// [`GROUPS`] groups of keys without state, with so many payments of 146 bytes each.
pub fn groups(events: usize) -> GroupColumns {
    let mut groups = GroupColumns::default();
    for group in 0..GROUPS {
        groups.keys.extend(format!("u{group:06}").bytes());
        groups.state_schemas.push(0);
        groups.flags.push(0);
        for event in 0..events {
            let number = group * events + event;
            let payment = format!(
                r#"{{"id":"t{number:07}","user_id":"u{group:06}","ts":{},"amount_minor":12345,"currency":"EUR","merchant":"m0042","country":"DE","device":"d0042"}}"#,
                TIME.0
            );
            groups.payloads.extend(payment.bytes());
            groups.payload_ends.push(groups.payloads.len() as u32);
            groups.event_times_ms.push(TIME.0);
        }
        groups.close_group();
    }
    groups
}

/// Nobody keeps records of rules.
pub struct NoRecords;

impl RunnerEvents for NoRecords {
    fn parked(&self, _: &str, _: Option<&Parked>) -> Result<()> {
        Ok(())
    }

    fn quarantined(&self, _: &str, _: &str, _: Millis) {}

    fn rolled_back(&self, _: &str, _: &RolledBack) {}
}
