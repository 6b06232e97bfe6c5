//! The functions of Spark's tests in the map form, with timeouts in event time.
#![cfg(target_arch = "wasm32")]

facts::export_map!(facts::EventTime);
