//! Generated from `wit/`; nothing here is written by hand.
#![allow(missing_docs, clippy::all, unused_qualifications)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "rule",
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: true },
});
