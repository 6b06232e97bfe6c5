//! The metrics as text, for Prometheus: made from what the service says at this moment.

mod rules;

use super::measured::Measured;
use crate::service::metrics::{MetricsSnapshot, TenantMetrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rules::Rules;
use std::sync::atomic::AtomicU64;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTenant {
    tenant: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQuota {
    tenant: String,
    quota: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStream {
    tenant: String,
    stream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRule {
    tenant: String,
    rule: String,
}

/// What the rules and streams beyond the bound are called together. No name begins like that.
const OTHER: &str = "_other";

/// The text. A tenant's rules and streams beyond `most` are added up.
pub fn text(snapshot: &MetricsSnapshot, measured: Option<&Measured>, most: usize) -> String {
    let mut registry = Registry::with_prefix("keyfold");
    let tenants = Tenants::new(&mut registry);
    let streams = Streams::new(&mut registry);
    let mut rules = Rules::new(&mut registry);
    for tenant in &snapshot.tenants {
        tenants.add(tenant);
        for (number, stream) in tenant.streams.iter().enumerate() {
            let stream_name = if number < most { stream.stream.clone() } else { OTHER.to_owned() };
            streams.add(OfStream { tenant: tenant.tenant.clone(), stream: stream_name }, stream.events, stream.bytes);
        }
        for (number, rule) in tenant.rules.iter().enumerate() {
            let name = if number < most { rule.rule.clone() } else { OTHER.to_owned() };
            rules.add(OfRule { tenant: tenant.tenant.clone(), rule: name }, rule);
        }
    }
    rules.register_durations(&mut registry);
    if let Some(server) = &snapshot.server {
        let checks: Gauge = Gauge::default();
        checks.set(server.checks_waiting.try_into().unwrap_or(i64::MAX));
        registry.register("checks_waiting", "Versions that wait for their checks", checks);
        let audit: Counter = Counter::default();
        audit.inc_by(server.audit_seq);
        registry.register("audit_entries", "Entries of the audit", audit);
    }
    if let Some(measured) = measured {
        measured.register(&mut registry);
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

type GaugeF = Gauge<f64, AtomicU64>;
type CounterF = Counter<f64, AtomicU64>;

struct Tenants {
    usage: Family<OfQuota, GaugeF>,
    limit: Family<OfQuota, GaugeF>,
    requests_limited: Family<OfTenant, Counter>,
    events_limited: Family<OfTenant, Counter>,
    cpu: Family<OfTenant, CounterF>,
    instances: Family<OfTenant, Gauge>,
}

impl Tenants {
    fn new(registry: &mut Registry) -> Self {
        let families = Tenants {
            usage: Family::default(),
            limit: Family::default(),
            requests_limited: Family::default(),
            events_limited: Family::default(),
            cpu: Family::default(),
            instances: Family::default(),
        };
        registry.register("quota_used", "How much of a quota a tenant uses", families.usage.clone());
        registry.register("quota_limit", "How much of it the tenant may use", families.limit.clone());
        let help = "Requests that were refused because there were too many";
        registry.register("requests_limited", help, families.requests_limited.clone());
        let help = "Events that were refused because there were too many";
        registry.register("events_limited", help, families.events_limited.clone());
        registry.register("guest_cpu_seconds", "Time on the processor of a tenant's rules", families.cpu.clone());
        registry.register("guest_instances", "Instances of a tenant's rules", families.instances.clone());
        families
    }

    fn add(&self, metrics: &TenantMetrics) {
        let TenantMetrics { tenant, quotas, usage, requests_limited, events_limited, cpu_seconds, instances, .. } =
            metrics;
        let used = [
            ("rules", usage.rules, quotas.rules),
            ("streams", usage.streams, quotas.streams),
            ("component_bytes", usage.component_bytes, quotas.component_bytes),
            ("state_keys", usage.state_keys, quotas.state_keys),
            ("state_bytes", usage.state_bytes, quotas.state_bytes),
            ("stream_bytes", usage.stream_bytes, quotas.stream_bytes),
        ];
        for (quota, used, limit) in used {
            let label = OfQuota { tenant: tenant.clone(), quota };
            self.usage.get_or_create(&label).set(used as f64);
            if let Some(limit) = limit {
                self.limit.get_or_create(&label).set(limit as f64);
            }
        }
        let label = OfTenant { tenant: tenant.clone() };
        self.requests_limited.get_or_create(&label).inc_by(*requests_limited);
        self.events_limited.get_or_create(&label).inc_by(*events_limited);
        self.cpu.get_or_create(&label).inc_by(*cpu_seconds);
        self.instances.get_or_create(&label).set((*instances).into());
    }
}

struct Streams {
    events: Family<OfStream, Counter>,
    bytes: Family<OfStream, Gauge>,
}

impl Streams {
    fn new(registry: &mut Registry) -> Self {
        let families = Streams { events: Family::default(), bytes: Family::default() };
        registry.register("stream_events", "Events since the stream was made", families.events.clone());
        registry.register("stream_bytes", "Bytes of a stream, as they are stored", families.bytes.clone());
        families
    }

    fn add(&self, label: OfStream, events: u64, bytes: u64) {
        self.events.get_or_create(&label).inc_by(events);
        self.bytes.get_or_create(&label).inc_by(bytes.try_into().unwrap_or(i64::MAX));
    }
}
