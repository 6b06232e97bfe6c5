//! Refuses every call that contains a key that begins with `bad`.
#![cfg(target_arch = "wasm32")]

use columns::{Failure, Guest, Outcomes};

struct FailingCall;

const CODE_OTHER: u32 = 3;

impl Guest for FailingCall {
    fn finish(outcomes: Outcomes, keys: &[&str]) -> Result<Outcomes, Failure> {
        match keys.iter().find(|key| columns::is_bad(key)) {
            Some(key) => Err(Failure { code: CODE_OTHER, message: format!("no call with the key {key}") }),
            None => Ok(outcomes),
        }
    }
}

columns::export!(FailingCall);
