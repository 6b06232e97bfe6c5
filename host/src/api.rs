//! The service over HTTP: routes with their limits, who may use them, and what is wrong as a problem document.
//!
//! A request meets, in this order: [`server`] (connections, TLS, headers), `envelope` (request id, log, problem documents),
//! `access` (token, role, rate), `body` (size and time), a handler in `routes`, and `work`, where the service does it. Handlers do
//! nothing that the service does not do: they read, call one method, and write.

#![allow(clippy::result_large_err, reason = "a problem is made once for each refused request, and is no hot path")]

mod access;
mod answers;
mod app;
mod body;
mod connections;
mod envelope;
mod limits;
mod measured;
mod metrics;
mod openapi;
mod page;
mod problem;
mod request_id;
mod router;
mod routes;
pub mod server;
mod settings;
mod shape;
mod shares;
mod tail;
mod tls;
mod work;

pub use app::App;
pub use limits::HttpLimits;
pub use openapi::document;
pub use router::router;
pub use routes::versions::component_in_form;
pub use settings::{ServerSettings, TlsSettings};
