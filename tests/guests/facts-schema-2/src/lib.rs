//! The functions of Spark's tests, with states that no earlier version can have written.
#![cfg(target_arch = "wasm32")]

facts::export!(facts::SecondSchema);
