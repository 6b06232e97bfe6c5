//! The functions of Spark's tests in the map form, without timeouts.
#![cfg(target_arch = "wasm32")]

facts::export_map!(facts::NoTimeout);
