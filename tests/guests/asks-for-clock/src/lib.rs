//! Imports the clock, the random numbers and the environment of WASI, and emits what it got for every key.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;
use wasi::cli::environment::get_environment;
use wasi::clocks::wall_clock;
use wasi::random::random::{get_random_bytes, get_random_u64};

mod bindings {
    //! The imports, as far as they are used here.
    #![allow(missing_docs, clippy::undocumented_unsafe_blocks, reason = "generated code")]

    wit_bindgen::generate!({
        inline: "
            package guest:clock;

            world clock {
                import wasi:clocks/wall-clock@0.2.0;
                import wasi:random/random@0.2.0;
                import wasi:cli/environment@0.2.0;
            }

            package wasi:clocks@0.2.0 {
                interface wall-clock {
                    record datetime { seconds: u64, nanoseconds: u32 }
                    now: func() -> datetime;
                }
            }

            package wasi:random@0.2.0 {
                interface random {
                    get-random-bytes: func(len: u64) -> list<u8>;
                    get-random-u64: func() -> u64;
                }
            }

            package wasi:cli@0.2.0 {
                interface environment {
                    get-environment: func() -> list<tuple<string, string>>;
                }
            }
        ",
        world: "guest:clock/clock",
        generate_all,
    });
}
use bindings::wasi;

struct AsksForClock;

const RANDOM_BYTES: u64 = 8;

impl Guest for AsksForClock {
    fn output(key: &str, count: u64) -> Output {
        let now = wall_clock::now();
        let environment: Vec<String> =
            get_environment().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        Output::of(key)
            .with("count", count)
            .with("time_ms", now.seconds * 1000 + u64::from(now.nanoseconds) / 1_000_000)
            .with("random_bytes", get_random_bytes(RANDOM_BYTES))
            .with("random_u64", format!("{:016x}", get_random_u64()))
            .with("environment", environment)
    }

    fn act(_: &mut Call) -> Result<()> {
        Ok(())
    }
}

counting::export!(AsksForClock);
