//! Describes itself with the map form, and gives no output for `bad-none…` and two for `bad-two…`.
#![cfg(target_arch = "wasm32")]

use columns::{Answer, Guest};

struct MapOutputs;

impl Guest for MapOutputs {
    fn describe() -> Vec<u8> {
        columns::describe_with_form("map", "update")
    }

    fn answer(key: &str, count: u64) -> Answer {
        let mut answer = Answer::counted(key, count);
        if key.starts_with("bad-none") {
            answer.outputs.clear();
        } else if key.starts_with("bad-two") {
            answer.outputs.extend_from_within(..);
        }
        answer
    }
}

columns::export!(MapOutputs);
