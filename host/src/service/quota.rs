//! How much a tenant may use: what was set for it, else what the server's settings say, else a default.

use super::model::Quotas;
use super::{Answer, ServiceError};
use crate::limits::Limits;

const GIB: u64 = 1 << 30;

/// The defaults: enough for a team's detectors on one machine, and a bound on what a stolen token can do.
fn built_in() -> Quotas {
    Quotas {
        rules: Some(100),
        streams: Some(200),
        component_bytes: Some(2 * GIB),
        events_per_second: Some(20_000),
        requests_per_second: Some(5_000),
        // All that others leave.
        cpu: None,
        weight: Some(100),
        instances: Some(32),
        memory_bytes: Some(Limits::default().memory_bytes_max),
        state_keys: Some(50_000_000),
        state_bytes: Some(50 * GIB),
        outputs_per_second: Some(100_000),
        stream_bytes: Some(50 * GIB),
    }
}

/// What holds for a tenant, everything filled in but `cpu`, which may stay without a bound.
pub(super) fn effective(own: &Quotas, server: &Quotas) -> Quotas {
    merged(&merged(&built_in(), server), own)
}

/// The first quotas, with what the second ones name in its place.
pub(super) fn merged(under: &Quotas, over: &Quotas) -> Quotas {
    Quotas {
        rules: over.rules.or(under.rules),
        streams: over.streams.or(under.streams),
        component_bytes: over.component_bytes.or(under.component_bytes),
        events_per_second: over.events_per_second.or(under.events_per_second),
        requests_per_second: over.requests_per_second.or(under.requests_per_second),
        cpu: over.cpu.or(under.cpu),
        weight: over.weight.or(under.weight),
        instances: over.instances.or(under.instances),
        memory_bytes: over.memory_bytes.or(under.memory_bytes),
        state_keys: over.state_keys.or(under.state_keys),
        state_bytes: over.state_bytes.or(under.state_bytes),
        outputs_per_second: over.outputs_per_second.or(under.outputs_per_second),
        stream_bytes: over.stream_bytes.or(under.stream_bytes),
    }
}

/// Refuses quotas that cannot be meant.
pub(super) fn check(quotas: &Quotas) -> Answer<()> {
    if quotas.cpu.is_some_and(|cores| !(cores.is_finite() && cores > 0.0)) {
        return Err(ServiceError::invalid_field("quotas.cpu", "cpu must be a number of cores above 0, such as 0.5"));
    }
    for (field, value) in [
        ("quotas.weight", quotas.weight.map(u64::from)),
        ("quotas.instances", quotas.instances.map(u64::from)),
        ("quotas.memory_bytes", quotas.memory_bytes),
    ] {
        if value == Some(0) {
            return Err(ServiceError::invalid_field(field, format!("{field} is 0: it must be at least 1")));
        }
    }
    let most = Limits::default().memory_bytes_max;
    if quotas.memory_bytes.is_some_and(|bytes| bytes > most) {
        let message = format!("memory_bytes is more than the {most} bytes that one instance can have");
        return Err(ServiceError::invalid_field("quotas.memory_bytes", message));
    }
    Ok(())
}

/// Refuses what goes over a quota.
pub(super) fn within(quota: &'static str, limit: Option<u64>, used: u64) -> Answer<()> {
    match limit {
        Some(limit) if used > limit => Err(ServiceError::quota(quota, limit, used)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_for_a_tenant_goes_before_the_server_s_and_that_before_the_defaults() {
        let own = Quotas { rules: Some(1), ..Quotas::default() };
        let server = Quotas { rules: Some(2), streams: Some(3), ..Quotas::default() };
        let quotas = effective(&own, &server);
        assert_eq!((quotas.rules, quotas.streams, quotas.weight), (Some(1), Some(3), Some(100)));
    }

    #[test]
    fn quotas_that_cannot_be_meant_are_refused() {
        for quotas in [
            Quotas { cpu: Some(0.0), ..Quotas::default() },
            Quotas { cpu: Some(f64::NAN), ..Quotas::default() },
            Quotas { weight: Some(0), ..Quotas::default() },
            Quotas { memory_bytes: Some(u64::MAX), ..Quotas::default() },
        ] {
            assert!(check(&quotas).is_err(), "{quotas:?}");
        }
        check(&Quotas::default()).unwrap();
    }
}
