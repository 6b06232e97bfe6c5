//! The sandbox: components in, outcomes out. The only folder that knows wasmtime.
//!
//! What it promises:
//! - A rule can compute and nothing else. Imports other than a log and a progress mark are refused by name when the component
//!   is loaded; a component that brings WASI gets one that is deaf (`deaf_wasi`).
//! - Compiling happens in a child process with limits on time and memory, and compiled code is read only from the host's own
//!   sealed cache.
//! - A group has its own fuel; memory, outputs, state, log and wall time have limits. A group that goes over one, or traps,
//!   fails alone.
//! - Whatever comes back is checked before it is used.
//! - The same batch gives the same bytes: no clock, no random numbers, canonical NaNs, fuel instead of timers.
//!
//! What it does not promise: protection against a fault in wasmtime itself. Run the host as an unprivileged user.

pub mod answer;
mod bindings;
pub mod cache;
pub mod call;
pub mod compile;
pub mod component;
mod deaf_wasi;
pub mod engine;
pub mod error;
pub mod migrated;
mod store;

pub use answer::Answer;
pub use call::Sandbox;
pub use component::Component;
pub use engine::Engine;
pub use error::{CallError, Reason};
pub use migrated::Migrated;
