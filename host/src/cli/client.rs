//! Commands that ask a server: they do nothing that `curl` could not do.

pub mod activate;
pub mod audit;
mod connection;
pub mod decide;
pub mod letters;
pub mod login;
mod login_file;
pub mod push;
mod rule_manifest;
pub mod rules;
mod shown;
pub mod streams;
pub mod tail;
pub mod tenants;
pub mod tokens;

pub use connection::ConnectArgs;
