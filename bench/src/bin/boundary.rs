//! What the boundary between host and rule costs: starting an instance, calling it, each group and event of a call, and
//! compiling and loading components.
//!
//! `cargo build --release -p keyfold && cargo run --release -p keyfold-bench --bin boundary`, after `cargo xtask build`.

use anyhow::{Context, Result, ensure};
use keyfold::event::{BatchId, Millis, PartitionId};
use keyfold::group::{BatchContext, GroupColumns};
use keyfold::limits::Limits;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use keyfold::wasm::{Component, Sandbox};
use keyfold_bench::{GROUPS, example, groups, shortest};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How often each is measured. The table shows the shortest time: what else the machine does only ever adds.
const RUNS: usize = 300;
/// Compiling takes a while, and varies little.
const COMPILE_RUNS: usize = 3;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for compiled code")?;
    let bench = Bench { limits: Limits::default(), cache: folder.path().join("cache"), target: target()? };
    bench.instances_and_calls()?;
    bench.groups()?;
    bench.loading()
}

struct Bench {
    limits: Limits,
    /// The folder of compiled code, empty at first.
    cache: PathBuf,
    /// The target folder, which has the guests.
    target: PathBuf,
}

/// The folder that has the folder of the profile in which this program lies.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let target = program.parent().and_then(|profile| profile.parent());
    Ok(target.context("this program lies in no target folder")?.to_owned())
}

impl Bench {
    fn instances_and_calls(&self) -> Result<()> {
        println!("{:<34}{:>12}", "one instance, one call", "us");
        for (name, path) in [("no-imports", self.guest("no-imports")), ("running-count", example("running-count"))] {
            let component = self.load(&path)?;
            let start = shortest(RUNS, || self.start(&component).map(drop))?;
            println!("{:<34}{:>12.1}", format!("start {name}"), micros(start));
            let mut sandbox = self.start(&component)?;
            let call = shortest(RUNS, || Ok(sandbox.call(&context(), &GroupColumns::default()).map(drop)?))?;
            println!("{:<34}{:>12.1}", format!("empty call {name}"), micros(call));
        }
        Ok(())
    }

    /// `no-imports` never says where it is, `failing-call` does; apart from that they do the same with good keys.
    fn groups(&self) -> Result<()> {
        println!("\n{:<34}{:>12}{:>12}{:>12}", format!("{GROUPS} groups, events each:"), 0, 1, 4);
        for (name, path) in [
            ("no-imports (silent)", self.guest("no-imports")),
            ("failing-call (enters)", self.guest("failing-call")),
            ("running-count", example("running-count")),
            ("card-sessions", example("card-sessions")),
        ] {
            let component = self.load(&path)?;
            let (mut nanos, mut fuel) = (Vec::new(), Vec::new());
            for events in [0, 1, 4] {
                let groups = groups(events);
                let mut sandbox = self.start(&component)?;
                let call = shortest(RUNS, || Ok(sandbox.call(&context(), &groups).map(drop)?))?;
                nanos.push(format!("{:>12.0}", call.as_nanos() as f64 / GROUPS as f64));
                let answer = sandbox.call(&context(), &groups)?;
                let sum: u64 = (0..GROUPS).map(|group| answer.fuel_of(group)).sum();
                fuel.push(if sum == 0 { format!("{:>12}", "-") } else { format!("{:>12}", sum / GROUPS as u64) });
            }
            println!("{:<34}{}", format!("{name}, ns per group"), nanos.concat());
            println!("{:<34}{}", format!("{name}, fuel per group"), fuel.concat());
        }
        Ok(())
    }

    fn loading(&self) -> Result<()> {
        println!("\n{:<22}{:>12}{:>12}{:>12}{:>12}", "loading", "KiB", "code KiB", "compile ms", "cached ms");
        for name in ["running-count", "card-sessions", "fraud-session"] {
            let bytes = fs::read(example(name)).context("run `cargo xtask build`")?;
            let compiler = self.compiler()?;
            let mut code = 0;
            let compile = shortest(COMPILE_RUNS, || {
                code = compiler.compile(&bytes, &self.limits)?.len();
                Ok(())
            })?;
            let loader = self.loader()?;
            loader.load(&bytes)?;
            let cached = shortest(RUNS, || loader.load(&bytes).map(drop))?;
            let (size, compile, cached) = (bytes.len() / 1024, micros(compile) / 1000.0, micros(cached) / 1000.0);
            println!("{name:<22}{size:>12}{:>12}{compile:>12.0}{cached:>12.2}", code / 1024);
        }
        Ok(())
    }

    fn guest(&self, name: &str) -> PathBuf {
        self.target.join("guests").join(format!("{name}.wasm"))
    }

    fn load(&self, path: &PathBuf) -> Result<Component> {
        let bytes = fs::read(path).with_context(|| format!("{}: run `cargo xtask build`", path.display()))?;
        self.loader()?.load(&bytes)
    }

    fn loader(&self) -> Result<Loader> {
        Loader::new(self.limits.clone(), Cache::open(&self.cache)?, self.compiler()?)
    }

    /// The `keyfold` of the same profile as this program.
    fn compiler(&self) -> Result<Compiler> {
        let program = std::env::current_exe()?.with_file_name("keyfold");
        ensure!(program.is_file(), "{} is missing: build the package keyfold with the same profile", program.display());
        Ok(Compiler::with_program(program))
    }

    fn start(&self, component: &Component) -> Result<Sandbox> {
        Ok(Sandbox::start(component, &self.limits, b"{}", &context())?)
    }
}

fn context() -> BatchContext {
    BatchContext {
        partition: PartitionId(0),
        batch: BatchId(1),
        time: Millis(1_767_571_200_000),
        watermark: Some(Millis(1_767_571_200_000)),
        seed: [7; 16],
        batch_query: false,
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
