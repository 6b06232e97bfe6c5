//! [`HttpLimits`]: how much a client may ask of the server itself, whoever it is. What a tenant may use are its quotas.

use serde::Deserialize;
use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// How much a client may ask of the server itself. Times are written like `10s`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct HttpLimits {
    /// Open connections. Each takes some 20 KB; one more is closed at once.
    pub connections: usize,
    /// Bytes of all headers of a request. A token and a trace fit in a tenth of it.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of a body of events.
    pub events_bytes: usize,
    /// Bytes of any other body but a component: manifests and settings are far smaller.
    pub json_bytes: usize,
    /// Bytes of all bodies that are being received. Of this a tenant gets a quarter at most.
    pub receiving_bytes: usize,
    /// Requests that wait for the disk or a batch at the same time. Of these a tenant gets a quarter at most.
    pub waiting_requests: usize,
    /// Tails that are open at the same time. Of these a tenant gets a quarter at most.
    pub tails: usize,
    /// How long the headers of a request may take. Whoever sends them byte by byte is cut off.
    #[serde(deserialize_with = "time")]
    pub header_timeout: Duration,
    /// How long a body may take; a component gets four times as long.
    #[serde(deserialize_with = "time")]
    pub body_timeout: Duration,
    /// How long a request may take from its headers to its answer; tails have no such end.
    #[serde(deserialize_with = "time")]
    pub request_timeout: Duration,
    /// How long running requests may take when the server stops.
    #[serde(deserialize_with = "time")]
    pub stop_timeout: Duration,
    /// Rules of a tenant that have metrics of their own; the others are added up as `_other`.
    pub metrics_rules: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections: 10_000,
            header_bytes: 32 * KIB,
            headers: 64,
            events_bytes: 16 * MIB,
            json_bytes: MIB,
            receiving_bytes: 512 * MIB,
            waiting_requests: 512,
            tails: 1_000,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(60),
            stop_timeout: Duration::from_secs(30),
            metrics_rules: 100,
        }
    }
}

fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::config::duration("the time", &text).map_err(|error| serde::de::Error::custom(format!("{error:#}")))
}
