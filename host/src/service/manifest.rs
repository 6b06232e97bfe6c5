//! [`CheckedManifest`]: a rule's manifest, checked: text goes in, what the host is made of comes out, or the path of the field that is
//! wrong.

use super::model::{self, Manifest, Quotas};
use super::tokens::parsed;
use super::{Answer, ServiceError};
use crate::config::{BATCH_BYTES_DEFAULT, BATCH_EVENTS_DEFAULT, Webhook, WebhookTable};
use crate::event::KEY_GROUPS;
use crate::extract::{Extractor, TimeFormat};
use crate::limits::Limits;
use crate::plan::{Identity, InputIdentity};
use crate::runner::{QuarantineSettings, RollbackSettings};
use crate::source::ReadLimit;
use crate::source::file::RECORD_BYTES_MAX_DEFAULT;
use crate::watermark::{InputWatermark, WatermarkPolicy};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::time::Duration;

/// Partitions of a rule when nobody says how many: most rules are small, and each partition is a file and a thread.
const PARTITIONS_DEFAULT: u32 = 1;
/// Inputs of one rule at most.
const INPUTS_MAX: usize = 16;
/// Events of a batch, unless its manifest says otherwise: a batch is read and keyed in one go, on a core that others wait for.
const SERVED_BATCH_EVENTS_DEFAULT: u64 = 10_000;
/// Fuel of one group at most: about half a second. What a tenant's rules use in all is bounded by its share of the cores.
const FUEL_MAX: u64 = 1_000_000_000;
/// Whoever asks for a decision waits so long when nobody says how long.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(1);
/// Longer than a client keeps a connection open.
const DEADLINE_MAX: Duration = Duration::from_secs(30);
/// Bytes of parameters.
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;
/// After so many failed groups in one batch of a partition the rest is not called.
const FAILURES_PER_BATCH_DEFAULT: u64 = 100;

/// A manifest, checked.
pub(super) struct CheckedManifest {
    pub inputs: Vec<CheckedInput>,
    pub partitions: u32,
    pub watermark_policy: WatermarkPolicy,
    pub parameters: Value,
    pub limits: Limits,
    pub output: CheckedOutput,
    pub batch: ReadLimit,
    pub interval: Option<Duration>,
    pub deadline: Duration,
    pub default_answer: Value,
    /// Which input single events go to.
    pub decide_input: usize,
    pub quarantine: QuarantineSettings,
    pub rollback: RollbackSettings,
}

/// An input, checked.
pub(super) struct CheckedInput {
    pub name: String,
    pub stream: String,
    pub key: Vec<String>,
    pub event_time: Option<(String, TimeFormat)>,
    pub watermark: InputWatermark,
    pub from: model::From,
}

/// Where outputs go.
pub(super) enum CheckedOutput {
    /// To the stream of this name.
    Stream(String),
    /// To a URL.
    Webhook(Webhook),
}

/// Reads a manifest, and tells which of its fields is wrong.
pub(super) fn parse(json: &[u8]) -> Answer<Manifest> {
    let error = match serde_json::from_slice(json) {
        Ok(manifest) => return Ok(manifest),
        Err(error) => error,
    };
    let Ok(Value::Object(fields)) = serde_json::from_slice(json) else {
        return Err(ServiceError::invalid("invalid-json", format!("the manifest is not a JSON object: {error}")));
    };
    // The readers of the parts know which part they read.
    if let Some(Value::Object(inputs)) = fields.get("inputs") {
        for (name, input) in inputs {
            part::<model::InputManifest>(&format!("inputs.{name}"), input)?;
        }
    }
    for (name, check) in [
        ("output", part::<model::OutputManifest> as fn(&str, &Value) -> Answer<()>),
        ("batch", part::<model::BatchManifest>),
        ("decide", part::<model::DecideManifest>),
        ("errors", part::<model::ErrorPolicy>),
    ] {
        fields.get(name).map_or(Ok(()), |value| check(name, value))?;
    }
    let message = error.to_string();
    Err(ServiceError { kind: super::ErrorKind::Invalid { field: field_in(&message) }, code: "invalid", message })
}

fn part<T: DeserializeOwned>(path: &str, value: &Value) -> Answer<()> {
    match serde_json::from_value::<T>(value.clone()) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = error.to_string();
            let field = field_in(&message).map_or_else(|| path.to_owned(), |field| format!("{path}.{field}"));
            Err(ServiceError::invalid_field(field, format!("{path}: {message}")))
        }
    }
}

/// The field that serde names first, between backquotes.
fn field_in(message: &str) -> Option<String> {
    let is_about_a_field = message.starts_with("unknown field") || message.starts_with("missing field");
    message.split('`').nth(1).filter(|_| is_about_a_field).map(str::to_owned)
}

impl CheckedManifest {
    /// Checks a manifest of a rule of this name in a tenant with these quotas.
    pub(super) fn new(name: &str, manifest: &Manifest, quotas: &Quotas, lets_private: bool) -> Answer<Self> {
        let inputs = inputs(manifest)?;
        let partitions = manifest.partitions.unwrap_or(PARTITIONS_DEFAULT);
        if !(1..=KEY_GROUPS).contains(&partitions) {
            let message = format!("partitions is {partitions}: 1 to {KEY_GROUPS} are possible");
            return Err(ServiceError::invalid_field("partitions", message));
        }
        let decide_input = decide_input(manifest, &inputs)?;
        let parameters = match &manifest.parameters {
            Value::Null => Value::Object(Map::new()),
            parameters => parameters.clone(),
        };
        if parameters.to_string().len() > PARAMETERS_BYTES_MAX {
            let message = format!("parameters are longer than {PARAMETERS_BYTES_MAX} bytes");
            return Err(ServiceError::invalid_field("parameters", message));
        }
        let deadline = manifest.decide.deadline.as_ref();
        let deadline = deadline.map_or(Ok(DEADLINE_DEFAULT), |text| parsed("decide.deadline", text))?;
        if deadline > DEADLINE_MAX {
            return Err(ServiceError::invalid_field("decide.deadline", "decide.deadline is more than 30s"));
        }
        let interval = manifest.batch.interval.as_ref().map(|text| parsed("batch.interval", text)).transpose()?;
        let events = manifest.batch.events.unwrap_or(SERVED_BATCH_EVENTS_DEFAULT);
        if !(1..=10 * BATCH_EVENTS_DEFAULT as u64).contains(&events) {
            let message = format!("batch.events is {events}: 1 to {} are possible", 10 * BATCH_EVENTS_DEFAULT);
            return Err(ServiceError::invalid_field("batch.events", message));
        }
        let (quarantine, rollback) = errors(&manifest.errors)?;
        Ok(CheckedManifest {
            inputs,
            partitions,
            watermark_policy: watermark_policy(manifest)?,
            parameters,
            limits: limits(manifest, quotas)?,
            output: output(name, manifest, lets_private)?,
            batch: ReadLimit { records_max: events as usize, bytes_max: BATCH_BYTES_DEFAULT },
            interval: interval.filter(|interval| !interval.is_zero()),
            deadline,
            default_answer: manifest.decide.default.clone(),
            decide_input,
            quarantine,
            rollback,
        })
    }

    /// What its data folder belongs to.
    pub(super) fn identity(&self, name: &str, id: &str) -> Identity {
        let time = |(pointer, format): &(String, TimeFormat)| (pointer.clone(), format.name().to_owned());
        Identity {
            rule: name.to_owned(),
            partitions: self.partitions,
            inputs: (self.inputs.iter())
                .map(|input| InputIdentity {
                    name: input.name.clone(),
                    key: input.key.clone(),
                    event_time: input.event_time.as_ref().map(time),
                })
                .collect(),
            watermark_policy: self.watermark_policy,
            record_bytes_max: RECORD_BYTES_MAX_DEFAULT,
            csv_text: Vec::new(),
            id: id.to_owned(),
        }
    }

    /// Refuses what cannot change any more once there are batches: they would not run again as they were planned.
    pub(super) fn check_change(&self, before: &Self) -> Answer<()> {
        let names = |manifest: &Self| manifest.inputs.iter().map(|input| input.name.clone()).collect::<Vec<_>>();
        let refuse = |field: String, why: &str| {
            let message = format!("{field} cannot change once the rule has run: {why}; make another rule");
            Err(ServiceError { code: "cannot-change", ..ServiceError::invalid_field(field, message) })
        };
        if names(self) != names(before) {
            return refuse("inputs".to_owned(), "its place in each of them is kept by their names");
        }
        for (new, old) in self.inputs.iter().zip(&before.inputs) {
            let at = |field: &str| format!("inputs.{}.{field}", new.name);
            if new.stream != old.stream {
                return refuse(at("stream"), "its place in the stream means nothing in another one");
            }
            if new.key != old.key {
                return refuse(at("key"), "states are kept under keys of the old form");
            }
            if new.event_time != old.event_time {
                return refuse(at("event_time"), "the watermark was made of the old times");
            }
        }
        if self.partitions != before.partitions {
            return refuse("partitions".to_owned(), "keys are spread over as many files");
        }
        if self.watermark_policy != before.watermark_policy {
            return refuse("watermark_policy".to_owned(), "the watermark was made by the old one");
        }
        Ok(())
    }
}

fn inputs(manifest: &Manifest) -> Answer<Vec<CheckedInput>> {
    if manifest.inputs.is_empty() || manifest.inputs.len() > INPUTS_MAX {
        let message = format!("a rule has 1 to {INPUTS_MAX} inputs, and here are {}", manifest.inputs.len());
        return Err(ServiceError::invalid_field("inputs", message));
    }
    let inputs = manifest.inputs.iter().map(|(name, input)| checked_input(name, input)).collect::<Answer<Vec<_>>>()?;
    let (with, without): (Vec<_>, Vec<_>) = inputs.iter().partition(|input| input.event_time.is_some());
    if let (Some(with), Some(without)) = (with.first(), without.first()) {
        let field = format!("inputs.{}.event_time", without.name);
        return Err(ServiceError::invalid_field(
            field,
            format!("the input {} has an event time: all have, or none", with.name),
        ));
    }
    Ok(inputs)
}

fn checked_input(name: &str, input: &model::InputManifest) -> Answer<CheckedInput> {
    let at = |field: &str| format!("inputs.{name}.{field}");
    super::check_name(&format!("inputs.{name}"), name)?;
    if input.key.is_empty() {
        return Err(ServiceError::invalid_field(
            at("key"),
            "name the fields that events are grouped by, such as /user_id",
        ));
    }
    let formats = [TimeFormat::EpochMs, TimeFormat::EpochS, TimeFormat::Rfc3339];
    let format = match &input.event_time_format {
        None => TimeFormat::EpochMs,
        Some(text) => *formats.iter().find(|format| format.name() == text).ok_or_else(|| {
            let message = format!("{text} is no form of a time: epoch-ms, epoch-s and rfc3339 are possible");
            ServiceError::invalid_field(at("event_time_format"), message)
        })?,
    };
    let event_time = input.event_time.clone().map(|pointer| (pointer, format));
    let delay = input.watermark_delay.as_ref().map(|text| parsed(&at("watermark_delay"), text)).transpose()?;
    let idle_after = input.idle_after.as_ref().map(|text| parsed(&at("idle_after"), text)).transpose()?;
    if event_time.is_none() && (delay.is_some() || idle_after.is_some() || input.event_time_format.is_some()) {
        let message = "a format, delay or idle time needs an event time: name its field";
        return Err(ServiceError::invalid_field(at("event_time"), message));
    }
    Extractor::new(input.key.clone(), event_time.clone())
        .map_err(|error| ServiceError::invalid_field(at("key"), format!("{error:#}")))?;
    Ok(CheckedInput {
        name: name.to_owned(),
        stream: input.stream.clone(),
        key: input.key.clone(),
        event_time,
        watermark: InputWatermark { delay: delay.unwrap_or_default(), idle_after },
        from: input.from,
    })
}

fn decide_input(manifest: &Manifest, inputs: &[CheckedInput]) -> Answer<usize> {
    match &manifest.decide.input {
        None => Ok(0),
        Some(name) => inputs
            .iter()
            .position(|input| input.name == *name)
            .ok_or_else(|| ServiceError::invalid_field("decide.input", format!("the rule has no input {name}"))),
    }
}

fn watermark_policy(manifest: &Manifest) -> Answer<WatermarkPolicy> {
    match manifest.watermark_policy.as_deref() {
        None | Some("min") => Ok(WatermarkPolicy::Min),
        Some("max") => Ok(WatermarkPolicy::Max),
        Some(other) => Err(ServiceError::invalid_field("watermark_policy", format!("{other}: write min or max"))),
    }
}

/// The limits of a rule: the defaults with what the manifest names in their place, within what its tenant may.
fn limits(manifest: &Manifest, quotas: &Quotas) -> Answer<Limits> {
    let defaults = Limits::default();
    let memory = quotas.memory_bytes.unwrap_or(defaults.memory_bytes_max);
    let most =
        Limits { fuel_per_group: FUEL_MAX, fuel_per_event: FUEL_MAX, memory_bytes_max: memory, ..defaults.clone() };
    let failures = manifest.errors.failures_per_batch.unwrap_or(FAILURES_PER_BATCH_DEFAULT);
    let limits = Limits {
        memory_bytes_max: memory,
        failures_per_batch_max: Some(failures).filter(|failures| *failures > 0),
        ..defaults
    };
    let to_value =
        |limits: &Limits| serde_json::to_value(limits).map_err(|error| ServiceError::internal(&error.into()));
    let (mut value, most) = (to_value(&limits)?, to_value(&most)?);
    for (name, wanted) in &manifest.limits {
        let field = || format!("limits.{name}");
        // What a batch does with failures is said under `errors`, and what is uploaded is not the rule's to say.
        let most = most
            .get(name)
            .and_then(Value::as_u64)
            .filter(|_| !name.starts_with("compile-") && name != "component-bytes-max");
        let Some(most) = most else {
            return Err(ServiceError::invalid_field(field(), format!("there is no limit {name} that a rule can have")));
        };
        if *wanted == 0 || *wanted > most {
            return Err(ServiceError::invalid_field(field(), format!("{name} is {wanted}: 1 to {most} are possible")));
        }
        value[name] = (*wanted).into();
    }
    serde_json::from_value(value).map_err(|error| ServiceError::internal(&error.into()))
}

fn output(name: &str, manifest: &Manifest, lets_private: bool) -> Answer<CheckedOutput> {
    let output = manifest.output.clone().unwrap_or_default();
    match (output.stream, output.webhook) {
        (Some(_), Some(_)) => {
            Err(ServiceError::invalid_field("output", "outputs go to one place: name a stream or a webhook"))
        }
        (stream, None) => {
            let stream = stream.unwrap_or_else(|| format!("{name}.outputs"));
            super::check_name("output.stream", &stream)?;
            Ok(CheckedOutput::Stream(stream))
        }
        (None, Some(table)) => webhook(&table, lets_private).map(CheckedOutput::Webhook),
    }
}

/// A webhook of a tenant: the requests come from the server's place in the network, so they may not go where only that can.
fn webhook(table: &Value, lets_private: bool) -> Answer<Webhook> {
    let invalid = |message: String| ServiceError::invalid_field("output.webhook", message);
    let mut unknown = Vec::new();
    let table: WebhookTable = serde_ignored::deserialize(table, |path| unknown.push(path.to_string()))
        .map_err(|error| invalid(error.to_string()))?;
    if !unknown.is_empty() {
        return Err(invalid(format!("unknown fields: {}", unknown.join(", "))));
    }
    // In a rule file `$NAME` stands for a variable of the process. A tenant may not have the server's.
    if table.headers.iter().flatten().any(|(_, value)| value.contains('$')) {
        return Err(invalid("headers: a value with $ would name a variable of the server".to_owned()));
    }
    let webhook = table.check().map_err(|error| invalid(format!("{error:#}")))?;
    if !lets_private && is_private(webhook.url.host_str().unwrap_or_default()) {
        return Err(invalid("the URL leads into the server's own network".to_owned()));
    }
    Ok(webhook)
}

/// Whether a host is one of the server's own network, by its name or address. A name that leads there by DNS is not seen: keep a server
/// that must not reach its network behind a proxy.
fn is_private(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => is_private_v4(address),
        Ok(IpAddr::V6(address)) => {
            let first = address.segments()[0];
            address.to_ipv4_mapped().is_some_and(is_private_v4)
                || address.is_loopback()
                || address.is_unspecified()
                || first & 0xfe00 == 0xfc00
                || first & 0xffc0 == 0xfe80
        }
        Err(_) => {
            host == "localhost" || host.ends_with(".localhost") || host.ends_with(".internal") || !host.contains('.')
        }
    }
}

fn is_private_v4(address: std::net::Ipv4Addr) -> bool {
    address.is_private() || address.is_loopback() || address.is_link_local() || address.is_unspecified()
}

fn errors(policy: &model::ErrorPolicy) -> Answer<(QuarantineSettings, RollbackSettings)> {
    for (field, share) in
        [("errors.rollback_share", policy.rollback_share), ("errors.quarantine_share", policy.quarantine_share)]
    {
        if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(ServiceError::invalid_field(field, format!("{field} must lie between 0 and 1")));
        }
    }
    let mut quarantine = QuarantineSettings::default();
    quarantine.share = policy.quarantine_share.unwrap_or(quarantine.share);
    quarantine.batches = policy.quarantine_batches.unwrap_or(quarantine.batches);
    let mut rollback = RollbackSettings::default();
    rollback.share = policy.rollback_share.unwrap_or(rollback.share);
    rollback.batches = policy.rollback_batches.unwrap_or(rollback.batches);
    Ok((quarantine, rollback))
}
