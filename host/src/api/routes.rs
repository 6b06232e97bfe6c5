//! The routes: each reads what was sent, calls one method of the service, and writes what it answers.

#![allow(unused_qualifications, reason = "the macro that describes routes writes the paths of their types")]

pub mod activations;
pub mod audit;
pub mod decide;
pub mod events;
pub mod letters;
pub mod open;
pub mod rules;
pub mod streams;
pub mod tails;
pub mod tenants;
pub mod tokens;
pub mod versions;
