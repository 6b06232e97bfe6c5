//! Says that it is working on another group, and traps on keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use columns::bindings::keyfold::rule::progress;
use columns::{Answer, Guest};

struct Liar;

impl Guest for Liar {
    /// `bad-zero`: every group of the call is said to be the first. `bad-range`: there is no such group. `bad-other`:
    /// the group after, which is innocent. `bad-twice`: the right one, again and again, for its fuel.
    fn enter(number: usize, keys: &[&str]) {
        let said = match keys[number] {
            _ if keys.iter().any(|key| key.starts_with("bad-zero")) => 0,
            key if key.starts_with("bad-range") => u32::MAX,
            key if key.starts_with("bad-other") => ((number + 1) % keys.len()) as u32,
            _ => number as u32,
        };
        progress::enter(said);
        while keys[number].starts_with("bad-twice") {
            progress::enter(said);
        }
    }

    fn answer(key: &str, count: u64) -> Answer {
        if columns::is_bad(key) {
            core::arch::wasm32::unreachable()
        }
        Answer::counted(key, count)
    }
}

columns::export!(Liar);
