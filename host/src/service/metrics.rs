//! [`MetricsSnapshot`]: what is measured, as it is now. Whoever shows it bounds the number of labels.

use super::model::{Quotas, RuleState, RuleStatus, Usage};
use crate::runner::RunnerStatus;

/// What is measured, as it is now.
#[derive(Debug, Clone, Default)]
pub struct MetricsSnapshot {
    /// The tenants that the caller may see, in the order of their names.
    pub tenants: Vec<TenantMetrics>,
    /// What is the server's as a whole; None for a tenant.
    pub server: Option<ServerMetrics>,
}

/// What concerns the whole server.
#[derive(Debug, Clone, Default)]
pub struct ServerMetrics {
    /// Versions that wait for their checks.
    pub checks_waiting: u64,
    /// The number of the last line of the audit.
    pub audit_seq: u64,
}

/// A tenant.
#[derive(Debug, Clone, Default)]
pub struct TenantMetrics {
    /// Its name.
    pub tenant: String,
    /// How much it may use.
    pub quotas: Quotas,
    /// How much it uses.
    pub usage: Usage,
    /// Requests since the start that were refused because there were too many.
    pub requests_limited: u64,
    /// Events since the start that were refused because there were too many.
    pub events_limited: u64,
    /// CPU time of its rules since the start.
    pub cpu_seconds: f64,
    /// Instances of its rules now.
    pub instances: u32,
    /// Its streams, in the order of their names.
    pub streams: Vec<StreamMetrics>,
    /// Its rules, in the order of their names.
    pub rules: Vec<RuleMetrics>,
}

/// A stream.
#[derive(Debug, Clone, Default)]
pub struct StreamMetrics {
    /// Its name.
    pub stream: String,
    /// Events since it was made.
    pub events: u64,
    /// Bytes as they are stored.
    pub bytes: u64,
}

/// A rule.
#[derive(Debug, Clone)]
pub struct RuleMetrics {
    /// Its name.
    pub rule: String,
    /// What it does now.
    pub status: RuleStatus,
    /// What its runner has counted since the start; None while no version is active.
    pub run: Option<RunnerStatus>,
}

impl RuleMetrics {
    /// Whether it is in this state: each state is a series of its own.
    pub fn is(&self, state: RuleState) -> bool {
        self.status.state == state
    }
}
