//! [`Measured`]: what requests took, for the metrics.

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;

/// What requests took. Routes are those of the document, so the number of series is bounded.
pub struct Measured {
    requests: Family<Answer, Counter>,
    seconds: Family<Route, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
}

impl Default for Measured {
    fn default() -> Self {
        // From half a millisecond to sixteen seconds, each twice the one before.
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        Measured { requests: Family::default(), seconds: Family::new_with_constructor(histogram) }
    }
}

impl Measured {
    /// A request was answered.
    pub fn request(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        // Anybody can invent a method.
        let method = match *method {
            Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => method.as_str(),
            _ => "other",
        };
        let route = route.to_owned();
        self.seconds.get_or_create(&Route { route: route.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&Answer { method: method.to_owned(), route, status: status.as_u16() }).inc();
    }

    /// Registers what was measured.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("http_requests", "Requests that were answered", self.requests.clone());
        registry.register("http_request_seconds", "From the headers to the answer", self.seconds.clone());
    }
}
