//! The service in this process: what each use case does, who may ask for it, and what a crash leaves of it.

mod audit;
mod authorisation;
mod crashes;
mod kit;
mod life;
mod quotas;
mod rules;
mod start;
mod tenants;
mod tokens;
