//! Generated from `wit/`; nothing here is written by hand.
#![allow(missing_docs, clippy::all, unused_qualifications)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "rule",
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: true },
});

/// The interface that a rule may export besides.
pub mod migration {
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "package keyfold:host; world migrator { export keyfold:rule/migration@0.1.0; }",
        world: "keyfold:host/migrator",
        exports: { default: async },
        ownership: Owning,
    });
}
