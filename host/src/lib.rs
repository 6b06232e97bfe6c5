//! A host for stateful streaming functions: WebAssembly rules over keyed streams, durable and exactly once.
//!
//! A rule call is a pure function, (key, events, state, timeout) -> (outputs, state change, timeout change). Everything else
//! here feeds that function or makes its answer durable. The modules in the order in which an event meets them:
//!
//! - [`source`] reads records, [`extract`] finds the key and event time of each, [`input`] sorts them to partitions.
//! - [`host`] cuts them into batches and writes the [`plan`] of each before it runs; [`watermark`] says how far event time has come.
//! - [`imports`] are states that are put in from outside.
//! - [`kept_components`] keeps the code of every rule that a batch was planned with.
//! - [`workers`] are the threads that own partitions; [`partition`] runs one batch in one of them.
//! - [`grouped`] brings events together by key, [`group`] is what crosses into the rule, [`evaluate`] calls it so that a group that fails, fails alone, and [`wasm`] is the
//!   sandbox that it runs in.
//! - [`imported`] are the states that a batch puts in.
//! - [`staged`] collects what the calls decided, and [`state`] commits it.
//! - [`checkpoint`] is what a rule needs to go on elsewhere, in an object store; [`backup`] copies a data folder, and
//!   [`new_folder`] lets one appear whole.
//! - [`release`] says when outputs may leave, [`sink`] takes them, [`progress`] tells what was done.
//! - [`stream`] keeps the events that rules of the service read, and their outputs; [`fair`] shares the cores between tenants, and
//!   [`runner`] opens a rule when there is something to do.
//! - [`service`] hosts the rules of many tenants in one process, and [`api`] is how it is asked, over HTTP.
//!
//! [`event`], [`clock`], [`folder_lock`], [`generation`], [`limits`], [`description`], [`synced`] and [`fault`] are used throughout and depend on next to nothing. [`config`] is what users
//! set, [`inspection`] shows states to people, [`scenario`] plays a rule's scenarios, [`mod@gen`] makes events for trials.

pub mod api;
pub mod backup;
pub mod checkpoint;
pub mod clock;
pub mod config;
pub mod decisions;
pub mod description;
pub mod envelope;
pub mod evaluate;
pub mod event;
pub mod extract;
pub mod fair;
pub mod fault;
pub mod folder_lock;
pub mod r#gen;
pub mod generation;
pub mod group;
pub mod grouped;
pub mod host;
pub mod imported;
pub mod imports;
pub mod input;
pub mod inspection;
pub mod kept_components;
pub mod limits;
pub mod new_folder;
pub mod partition;
pub mod plan;
pub mod progress;
pub mod release;
pub mod rule_log;
pub mod runner;
pub mod scenario;
pub mod service;
pub mod sink;
pub mod source;
pub mod staged;
pub mod state;
pub mod stream;
pub mod synced;
pub mod wasm;
pub mod watermark;
pub mod workers;
