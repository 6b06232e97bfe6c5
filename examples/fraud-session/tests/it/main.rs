//! The machine against its scenarios, its diagram and its invariants.
#![allow(clippy::unwrap_used)]

mod diagram;
mod events;
mod properties;
mod replay;
mod scenario;
