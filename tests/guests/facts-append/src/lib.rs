//! The functions of Spark's tests, with outputs that do not replace earlier ones.
#![cfg(target_arch = "wasm32")]

facts::export!(facts::Appending);
