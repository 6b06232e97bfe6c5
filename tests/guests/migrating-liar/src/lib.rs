//! Counts as `columns` does, and writes another schema. What it says of the states that it rewrites does not fit when one of them is
//! a count of so many hundreds.
#![cfg(target_arch = "wasm32")]

use columns::Guest;
use counting::keyfold_sdk::bindings::migration::exports::keyfold::rule::migration as contract;

struct Liar;

impl Guest for Liar {
    fn describe() -> Vec<u8> {
        columns::describe_with_schema(2)
    }
}

columns::export!(Liar);

struct Migration;

impl contract::Guest for Migration {
    fn migrate(_: u32, _: u32, states: Vec<u8>, ends: Vec<u32>) -> Result<contract::Migrated, contract::Failure> {
        let mut start = 0;
        let mut wrong = contract::Migrated { states: states.clone(), state_ends: ends.clone() };
        for (number, &end) in ends.iter().enumerate() {
            match &states[start..end as usize] {
                b"100" => drop(wrong.state_ends.pop()),
                b"200" => wrong.state_ends[number] = u32::MAX,
                b"300" => wrong.states.push(b'0'),
                b"400" => wrong.state_ends.push(end),
                _ => {}
            }
            start = end as usize;
        }
        Ok(wrong)
    }
}

counting::keyfold_sdk::bindings::migration::export!(Migration with_types_in counting::keyfold_sdk::bindings::migration);
