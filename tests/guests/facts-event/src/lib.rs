//! The functions of Spark's tests, with timeouts in event time.
#![cfg(target_arch = "wasm32")]

facts::export!(facts::EventTime);
