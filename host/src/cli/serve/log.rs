//! The log of a server: a filter that can be changed while it runs, lines for people or for programs, and traces for a collector.

use anyhow::{Context, Result, anyhow};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::io::IsTerminal;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

/// Traces are for what a request did: below this nobody looks at them.
const TRACES: &str = "info,hyper=off,h2=off,reqwest=off,opentelemetry=off,opentelemetry_sdk=off,opentelemetry_otlp=off";

/// The log of a server.
pub struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
    traces: Option<SdkTracerProvider>,
}

/// Starts the log of this process.
pub fn start(filter: &str, json: bool, otlp: Option<&str>) -> Result<Log> {
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines =
        if json { lines.json().boxed() } else { lines.with_ansi(std::io::stderr().is_terminal()).compact().boxed() };
    let traces = otlp.map(provider).transpose()?;
    let spans = traces.as_ref().map(|provider| {
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("keyfold"));
        layer.with_filter(EnvFilter::new(TRACES))
    });
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).init();
    Ok(Log { filter: handle, traces })
}

impl Log {
    /// Logs something else from now on.
    pub fn set_filter(&self, filter: &str) -> Result<()> {
        self.filter.reload(parse(filter)?).context("the log filter cannot be changed")
    }

    /// Sends the traces that were not sent yet.
    pub fn flush(&self) {
        if let Some(Err(error)) = self.traces.as_ref().map(SdkTracerProvider::shutdown) {
            tracing::warn!("the last traces were not sent: {error}");
        }
    }
}

fn parse(filter: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(filter).map_err(|error| anyhow!("'{filter}' is no log filter: {error}"))
}

fn provider(url: &str) -> Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).with_endpoint(url);
    let exporter = exporter.build().with_context(|| format!("traces cannot be sent to {url}"))?;
    let resource = Resource::builder().with_service_name("keyfold").build();
    Ok(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
}
