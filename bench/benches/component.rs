//! What it takes to have a rule that can be called: compiling it, loading it with its code in the cache, and starting an instance.

use anyhow::Result;
use divan::Bencher;
use keyfold::limits::Limits;
use keyfold_bench::rules;

const RULES: [&str; 3] = ["running-count", "card-sessions", "fraud-session"];

fn main() -> Result<()> {
    if !rules::compile_as_child()? {
        divan::main();
    }
    Ok(())
}

/// In a child process, without a cache.
#[divan::bench(args = RULES, sample_count = 5, sample_size = 1)]
fn compile(bencher: Bencher, name: &str) {
    let rule = rules::read(&rules::example(name)).expect("it is built");
    let compiler = rules::compiler().expect("this program can be started");
    let limits = Limits::default();
    bencher.bench_local(|| compiler.compile(&rule, &limits).expect("it compiles"));
}

#[divan::bench(args = RULES)]
fn load(bencher: Bencher, name: &str) {
    let rule = rules::read(&rules::example(name)).expect("it is built");
    let loader = rules::loader().expect("there is a cache");
    loader.load(&rule).expect("it is a rule");
    bencher.bench_local(|| loader.load(&rule).expect("it is a rule"));
}

/// And its end: a batch takes an instance of its own in each partition.
#[divan::bench(args = RULES)]
fn start(bencher: Bencher, name: &str) {
    let component = rules::load(&rules::example(name)).expect("it is built");
    bencher.bench_local(|| drop(rules::start(&component).expect("it starts")));
}
