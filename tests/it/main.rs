//! All integration tests of the host, in one binary: one module for each subject.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod batch_query;
mod card_sessions;
mod checkpoints;
mod cli;
mod compile_bomb;
mod conformance;
mod contract;
mod damage;
mod determinism;
mod docs;
mod edits;
mod http;
mod imports;
mod input;
mod model;
mod overlay_budget;
mod progress;
mod recovery;
mod runner;
mod sandbox;
mod scenarios;
mod service;
mod several_inputs;
mod sinks;
mod sources;
mod spark;
mod state_readers;
mod streams;
mod support;
mod swap;
mod tidy;
mod upgrade;
