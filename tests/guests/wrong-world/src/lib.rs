//! Exports something else than a rule.
#![cfg(target_arch = "wasm32")]
#![allow(missing_docs, clippy::undocumented_unsafe_blocks, reason = "generated code")]

wit_bindgen::generate!({
    inline: "
        package guest:other;

        world other {
            export answer: func() -> u32;
        }
    ",
});

struct WrongWorld;

impl Guest for WrongWorld {
    fn answer() -> u32 {
        42
    }
}

export!(WrongWorld);
