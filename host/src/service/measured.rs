//! What is measured, put together when it is asked for.

use super::metrics::{MetricsSnapshot, RuleMetrics, ServerMetrics, StreamMetrics, TenantMetrics};
use super::registry::{StreamEntry, TenantEntry};
use super::rules::status_of;
use super::{Answer, Caller, Operation, Service};
use std::sync::Arc;

impl Service {
    /// What is measured: a tenant sees its own, the platform all.
    pub fn metrics(&self, caller: &Caller) -> Answer<MetricsSnapshot> {
        self.allow(caller, Operation::METRICS, "")?;
        if caller.tenant.is_some() {
            let tenant = self.tenant_of(caller)?;
            return Ok(MetricsSnapshot { tenants: vec![self.measure(&tenant)?], server: None });
        }
        let tenants: Vec<Arc<TenantEntry>> = self.registry.all();
        Ok(MetricsSnapshot {
            tenants: tenants.iter().map(|tenant| self.measure(tenant)).collect::<Answer<_>>()?,
            server: Some(ServerMetrics {
                checks_waiting: self.checks.waiting() as u64,
                audit_seq: self.catalogue.look(|look| look.audit_end())?,
            }),
        })
    }

    fn measure(&self, tenant: &TenantEntry) -> Answer<TenantMetrics> {
        let used = self.share_of(tenant).used();
        Ok(TenantMetrics {
            tenant: tenant.name.clone(),
            quotas: self.quotas_of(tenant),
            usage: self.usage_of(tenant)?,
            requests_limited: tenant.requests.refused(),
            events_limited: tenant.events.refused(),
            cpu_seconds: used.cpu.as_secs_f64(),
            instances: used.instances,
            streams: tenant.all_streams().iter().map(|stream| self.measure_stream(stream)).collect::<Answer<_>>()?,
            rules: tenant
                .all_rules()
                .iter()
                .map(|rule| {
                    let status = rule.status();
                    RuleMetrics { rule: rule.name.clone(), status: status_of(rule, status.as_ref()), run: status }
                })
                .collect(),
        })
    }

    fn measure_stream(&self, stream: &StreamEntry) -> Answer<StreamMetrics> {
        let log = self.log_of(stream)?;
        let events = log.ends().iter().map(|end| end.line).sum();
        Ok(StreamMetrics { stream: stream.name.clone(), events, bytes: log.bytes() })
    }
}
