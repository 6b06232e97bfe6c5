//! What is measured of rules.

use super::{CounterF, OTHER, OfRule};
use crate::runner::{BATCH_SECONDS, Histogram, Totals};
use crate::service::metrics::RuleMetrics;
use crate::service::model::RuleState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    tenant: String,
    rule: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVersion {
    tenant: String,
    rule: String,
    version: String,
    digest: String,
}

/// Series of rules.
pub(super) struct Rules {
    state: Family<OfState, Gauge>,
    component: Family<OfVersion, Gauge>,
    gauges: [Family<OfRule, Gauge>; GAUGES.len()],
    batch: Family<OfRule, Gauge>,
    counters: [Family<OfRule, Counter>; COUNTERS.len()],
    busy: Family<OfRule, CounterF>,
    durations: BTreeMap<(String, String), Histogram>,
}

/// A name, what it says, and where its number comes from.
type Metric<T> = (&'static str, &'static str, fn(&T) -> u64);

/// What a rule has now.
const GAUGES: [Metric<RuleMetrics>; 6] = [
    ("state_keys", "Keys with state or a timeout", |rule| rule.status.keys),
    ("source_lag_records", "Events that the rule has not read yet", |rule| rule.status.lag),
    (
        "state_rows_left",
        "Keys whose state an earlier version wrote and that are still to be migrated, forgotten or drained",
        |rule| rule.status.rows_left,
    ),
    ("outbox_bytes", "Bytes of outputs that wait for the sink", |rule| {
        rule.run.as_ref().map_or(0, |run| run.outbox.bytes)
    }),
    ("decisions_waiting", "Events whose decision somebody waits for", |rule| {
        rule.run.as_ref().map_or(0, |run| run.deciding as u64)
    }),
    ("versions_on_trial", "Whether a version was activated lately and may be taken back", |rule| {
        rule.run.as_ref().map_or(0, |run| run.is_on_trial.into())
    }),
];

/// What a rule has done since the server started.
const COUNTERS: [Metric<Totals>; 15] = [
    ("batches", "Batches that were committed", |totals| totals.batches),
    ("input_rows", "Events that were read", |totals| totals.input_rows),
    ("outputs", "Outputs", |totals| totals.outputs),
    ("groups", "Keys that the rule was called for", |totals| totals.groups),
    ("failed_groups", "Of these, the ones that failed", |totals| totals.failed_groups),
    ("timers_fired", "Of these, for a timeout", |totals| totals.timeouts),
    ("guest_calls", "Calls into the rule", |totals| totals.calls),
    ("guest_fuel_used", "Fuel of all groups", |totals| totals.fuel),
    ("dead_letters", "Groups and events that went to the dead letters", |totals| totals.dead_letters),
    ("late_records", "Late events that were dropped", |totals| totals.late),
    ("activations", "Activations that took effect", |totals| totals.activations),
    ("rollbacks", "Of these, the ones that were taken back", |totals| totals.rollbacks),
    ("rule_failures", "How often the rule could not run", |totals| totals.failures),
    ("decisions", "Decisions that were answered in time", |totals| totals.decided),
    ("decisions_defaulted", "Decisions that got the declared default", |totals| totals.undecided),
];

impl Rules {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let rules = Rules {
            state: Family::default(),
            component: Family::default(),
            gauges: Default::default(),
            batch: Family::default(),
            counters: Default::default(),
            busy: Family::default(),
            durations: BTreeMap::new(),
        };
        registry.register("rule_state", "How many rules are in this state", rules.state.clone());
        registry.register("component_info", "The version that runs", rules.component.clone());
        for ((name, help, _), family) in GAUGES.iter().zip(&rules.gauges) {
            registry.register(*name, *help, family.clone());
        }
        registry.register("last_batch", "The last batch that was committed", rules.batch.clone());
        for ((name, help, _), family) in COUNTERS.iter().zip(&rules.counters) {
            registry.register(*name, *help, family.clone());
        }
        registry.register("batch_busy_seconds", "Time in batches", rules.busy.clone());
        rules
    }

    /// Adds a rule, under its own name or that of those beyond the bound.
    pub(super) fn add(&mut self, label: OfRule, rule: &RuleMetrics) {
        let OfRule { tenant, rule: name } = label.clone();
        for ((_, _, number), family) in GAUGES.iter().zip(&self.gauges) {
            family.get_or_create(&label).inc_by(number(rule).try_into().unwrap_or(i64::MAX));
        }
        let state = word(rule.status.state);
        self.state.get_or_create(&OfState { tenant: tenant.clone(), rule: name.clone(), state }).inc();
        let is_alone = name != OTHER;
        // A sum of the batches of several rules would say nothing.
        if let Some(batch) = rule.status.batch.filter(|_| is_alone) {
            self.batch.get_or_create(&label).set(batch.0.try_into().unwrap_or(i64::MAX));
        }
        let Some(run) = &rule.run else { return };
        if is_alone {
            let (version, digest) = (run.version.clone(), run.digest.clone());
            let version = OfVersion { tenant: tenant.clone(), rule: name.clone(), version, digest };
            self.component.get_or_create(&version).set(1);
        }
        for ((_, _, number), family) in COUNTERS.iter().zip(&self.counters) {
            family.get_or_create(&label).inc_by(number(&run.totals));
        }
        let took = &run.totals.batch_seconds;
        self.busy.get_or_create(&label).inc_by(took.sum);
        let sum = self.durations.entry((tenant, name)).or_default();
        sum.sum += took.sum;
        sum.buckets.iter_mut().zip(took.buckets).for_each(|(sum, count)| *sum += count);
    }

    /// Registers how long batches took, once all rules were added.
    pub(super) fn register_durations(&mut self, registry: &mut Registry) {
        registry.register_collector(Box::new(Durations(std::mem::take(&mut self.durations))));
    }
}

/// How long batches took, by tenant and rule: counted by runners, in their own buckets.
#[derive(Debug)]
struct Durations(BTreeMap<(String, String), Histogram>);

impl Collector for Durations {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let help = "How long batches took, from the trigger to the delivery";
        let mut metric = encoder.encode_descriptor("batch_duration_seconds", help, None, MetricType::Histogram)?;
        for ((tenant, rule), took) in &self.0 {
            let ends = BATCH_SECONDS.into_iter().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends.zip(took.buckets).collect();
            let label = OfRule { tenant: tenant.clone(), rule: rule.clone() };
            metric.encode_family(&label)?.encode_histogram::<OfRule>(took.sum, took.count(), &buckets, None)?;
        }
        Ok(())
    }
}

fn word(state: RuleState) -> &'static str {
    match state {
        RuleState::New => "new",
        RuleState::Running => "running",
        RuleState::Paused => "paused",
        RuleState::Quarantined => "quarantined",
        RuleState::Held => "held",
        RuleState::Failed => "failed",
        RuleState::Draining => "draining",
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use crate::service::metrics::{MetricsSnapshot, TenantMetrics};
    use crate::service::model::RuleStatus;

    fn rule(name: &str, keys: u64) -> RuleMetrics {
        let status = RuleStatus {
            state: RuleState::Running,
            reason: None,
            since: None,
            batch: Some(crate::event::BatchId(7)),
            keys,
            lag: 0,
            rows_left: 0,
            next_due: None,
        };
        RuleMetrics { rule: name.to_owned(), status, run: None }
    }

    #[test]
    fn rules_beyond_the_bound_are_added_up() {
        let rules = vec![rule("a", 1), rule("b", 2), rule("c", 4)];
        let tenant = TenantMetrics { tenant: "t".into(), rules, ..TenantMetrics::default() };
        let text = text(&MetricsSnapshot { tenants: vec![tenant], server: None }, None, 1);
        assert!(text.contains("keyfold_state_keys{tenant=\"t\",rule=\"a\"} 1\n"), "{text}");
        assert!(text.contains("keyfold_state_keys{tenant=\"t\",rule=\"_other\"} 6\n"), "{text}");
        assert!(text.contains("keyfold_rule_state{tenant=\"t\",rule=\"_other\",state=\"running\"} 2\n"), "{text}");
        assert!(
            text.contains("keyfold_last_batch{tenant=\"t\",rule=\"a\"} 7\n") && !text.contains("rule=\"b\""),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn durations_are_a_histogram_of_openmetrics() {
        let mut took = Histogram { sum: 3.0, ..Histogram::default() };
        (took.buckets[1], took.buckets[BATCH_SECONDS.len()]) = (2, 1);
        let mut registry = Registry::with_prefix("keyfold");
        registry.register_collector(Box::new(Durations([(("t".to_owned(), "r".to_owned()), took)].into())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("memory takes all");
        for line in ["_sum{tenant=\"t\",rule=\"r\"} 3.0", "_bucket{le=\"0.001\",tenant=\"t\",rule=\"r\"} 0"] {
            assert!(text.contains(&format!("keyfold_batch_duration_seconds{line}\n")), "{text}");
        }
        assert!(
            text.contains("le=\"0.002\",tenant=\"t\",rule=\"r\"} 2\n")
                && text.contains("le=\"+Inf\",tenant=\"t\",rule=\"r\"} 3\n"),
            "{text}"
        );
    }
}
