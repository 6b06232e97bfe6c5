//! Generated from `wit/`; nothing here is written by hand.
#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::undocumented_unsafe_blocks, unused_qualifications)]

wit_bindgen::generate!({
    path: "../../../wit",
    world: "rule",
    pub_export_macro: true,
    default_bindings_module: "columns::bindings",
});
