//! The functions of Spark's tests, with timeouts in processing time.
#![cfg(target_arch = "wasm32")]

facts::export!(facts::ProcessingTime);
