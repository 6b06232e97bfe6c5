//! The service: the rules of many tenants in one process.

pub mod model;
