//! The functions of Spark's tests, without timeouts.
#![cfg(target_arch = "wasm32")]

facts::export!(facts::NoTimeout);
