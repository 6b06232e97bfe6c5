//! Generated from `wit/`; nothing here is written by hand.
#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::undocumented_unsafe_blocks, unused_qualifications)]

wit_bindgen::generate!({
    path: "../../wit",
    world: "rule",
    pub_export_macro: true,
    default_bindings_module: "keyfold_sdk::bindings",
});

/// The interface that a rule may export besides.
pub mod migration {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package keyfold:sdk; world migrator { export keyfold:rule/migration@0.1.0; }",
        world: "keyfold:sdk/migrator",
        with: { "keyfold:rule/types@0.1.0": crate::bindings::keyfold::rule::types },
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "keyfold_sdk::bindings::migration",
    });
}
