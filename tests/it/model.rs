//! Random streams, stops and losses of power: whatever happens, the host gives what a model in memory gives.

mod reference;
mod session;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use session::Session;

/// Streams that are tried. Each takes some tens of milliseconds for each of its steps.
const CASES: u32 = 240;
/// Another seed makes other streams; this variable names it.
const SEED: &str = "KEYFOLD_TEST_SEED";
const SEED_DEFAULT: u64 = 20_260_107;

/// Something that happens to a rule.
#[derive(Debug, Clone)]
enum Step {
    /// Lines come, each for one of few keys, some seconds after the line before it or some before.
    Add(Vec<Line>),
    /// A run until nothing is left to do: also one after a restart, and one without any input.
    Run,
    /// A run in which power is lost after this share of what it does to the disk.
    LosePower { share: f64, seed: u64 },
    /// States are put in from outside: key, count, and for how long until the timeout, if there is one.
    Import(Vec<(u8, u64, Option<i8>)>),
}

#[derive(Debug, Clone)]
enum Line {
    Event { key: u8, after_s: i8 },
    Garbage,
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        12 => (0..5u8, -3..6i8).prop_map(|(key, after_s)| Line::Event { key, after_s }),
        // Late, or so late that the timeout would lie before the watermark.
        2 => (0..5u8, -40..0i8).prop_map(|(key, after_s)| Line::Event { key, after_s }),
        1 => Just(Line::Garbage),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => vec(line(), 1..14).prop_map(Step::Add),
        2 => Just(Step::Run),
        4 => (0.0..1.0f64, any::<u64>()).prop_map(|(share, seed)| Step::LosePower { share, seed }),
        1 => vec((0..6u8, 1..100u64, proptest::option::of(-5..20i8)), 1..4).prop_map(Step::Import),
    ]
}

fn story() -> impl Strategy<Value = (u32, Vec<Step>)> {
    (1..4u32, vec(step(), 3..12))
}

#[test]
fn whatever_happens_the_host_gives_what_the_model_gives() {
    let seed = std::env::var(SEED).map_or(SEED_DEFAULT, |text| text.parse().expect("the seed is a number"));
    println!("{SEED}={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config =
        ProptestConfig { cases: CASES, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let played = runner.run(&story(), |(partitions, steps)| {
        let mut session = Session::new(partitions);
        steps.iter().for_each(|step| session.take(step));
        session.take(&Step::Run);
        Ok(())
    });
    played.unwrap_or_else(|error| panic!("{SEED}={seed}: {error}"));
}
