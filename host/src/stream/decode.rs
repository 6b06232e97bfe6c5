//! [`decode`]: what is posted to a stream becomes events.

mod binary;

use super::new_event::too_long;
use super::{NewEvent, Refusal};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// What was posted.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    /// The value of the header `Content-Type`.
    pub content_type: Option<&'a str>,
    /// The other headers, of which those that begin with `ce-` matter: they make the body the data of one CloudEvent. Names in lower
    /// case.
    pub headers: &'a [(String, String)],
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Why a body holds no events that can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Which part of the body.
    pub place: Option<Place>,
    /// A stable word for machines, and a sentence.
    pub refusal: Refusal,
}

/// A part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line, from 1.
    Line(usize),
    /// An element of an array, from 0.
    Index(usize),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(Place::Line(line)) => write!(f, "line {line}: ")?,
            Some(Place::Index(index)) => write!(f, "event {index}: ")?,
            None => {}
        }
        f.write_str(&self.refusal.message)
    }
}

impl std::error::Error for DecodeError {}

impl DecodeError {
    /// Whether the content type is one that holds no events: HTTP has a status of its own for that.
    pub fn is_unsupported_type(&self) -> bool {
        self.refusal.code == "unsupported-content-type"
    }
}

/// The events in a body. Longer ones than `event_bytes_max` are refused, and so are more than `events_max`.
pub fn decode(body: &Body<'_>, event_bytes_max: usize, events_max: usize) -> Result<Vec<NewEvent>, DecodeError> {
    let limits = Limits { event_bytes_max, events_max };
    let media = Media::of(body)?;
    match media {
        Media::Lines => lines(body.bytes, limits),
        Media::Json => elements(body.bytes, limits, Form::Plain, true),
        Media::CloudEvent => elements(body.bytes, limits, Form::CloudEvent, false),
        Media::CloudEvents => elements(body.bytes, limits, Form::CloudEvent, true),
        Media::BinaryCloudEvent => Ok(vec![limits.event(binary::event(body)?, Form::CloudEvent)?]),
    }
}

#[derive(Clone, Copy)]
struct Limits {
    event_bytes_max: usize,
    events_max: usize,
}

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    CloudEvent,
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Media {
    /// An event on each line.
    Lines,
    /// One event or an array of them.
    Json,
    CloudEvent,
    CloudEvents,
    BinaryCloudEvent,
}

impl Media {
    fn of(body: &Body<'_>) -> Result<Self, DecodeError> {
        if body.headers.iter().any(|(name, _)| name == "ce-specversion") {
            return Ok(Media::BinaryCloudEvent);
        }
        let (media, parameters) = split_type(body.content_type.unwrap_or_default());
        if let Some(charset) = charset(parameters).filter(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
            return Err(unsupported(format!("the charset {charset} is not supported; send UTF-8")));
        }
        match media.as_str() {
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/x-jsonlines" => {
                Ok(Media::Lines)
            }
            "application/json" => Ok(Media::Json),
            "application/cloudevents+json" => Ok(Media::CloudEvent),
            "application/cloudevents-batch+json" => Ok(Media::CloudEvents),
            media => {
                let what = if media.is_empty() { "a missing Content-Type" } else { media };
                Err(unsupported(format!(
                    "{what} is not supported; send application/x-ndjson, application/json, application/cloudevents+json or \
                     application/cloudevents-batch+json"
                )))
            }
        }
    }
}

/// A content type in lower case, and its parameters.
fn split_type(content_type: &str) -> (String, &str) {
    let (media, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    (media.trim().to_ascii_lowercase(), parameters)
}

fn charset(parameters: &str) -> Option<&str> {
    let named = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let mut charsets = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charsets.next().map(|(_, charset)| charset.trim().trim_matches('"'))
}

fn unsupported(message: String) -> DecodeError {
    Refusal { code: "unsupported-content-type", message }.into()
}

impl From<Refusal> for DecodeError {
    fn from(refusal: Refusal) -> Self {
        DecodeError { place: None, refusal }
    }
}

impl Limits {
    fn event(self, json: impl Into<Vec<u8>>, form: Form) -> Result<NewEvent, Refusal> {
        let json = json.into();
        // Before it is looked at: what is too long is not worth the time.
        if json.len() > self.event_bytes_max {
            return Err(too_long(json.len(), self.event_bytes_max));
        }
        let event = NewEvent::new(json)?;
        if event.json().trim_ascii_start().first() != Some(&b'{') {
            return Err(Refusal::new("not-an-object", "the event is not a JSON object"));
        }
        match form {
            Form::Plain => Ok(event),
            Form::CloudEvent => {
                let id = cloud_event_id(event.json())?;
                Ok(event.with_id(id))
            }
        }
    }

    fn check_count(self, count: usize) -> Result<(), DecodeError> {
        if count <= self.events_max {
            return Ok(());
        }
        let message = format!("the body has more than {} events; send fewer at once", self.events_max);
        Err(Refusal { code: "too-many-events", message }.into())
    }
}

fn lines(bytes: &[u8], limits: Limits) -> Result<Vec<NewEvent>, DecodeError> {
    let mut events = Vec::new();
    for (line, json) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let json = json.trim_ascii();
        if json.is_empty() {
            continue;
        }
        limits.check_count(events.len() + 1)?;
        let place = Some(Place::Line(line + 1));
        events.push(limits.event(json, Form::Plain).map_err(|refusal| DecodeError { place, refusal })?);
    }
    Ok(events)
}

/// The elements of an array, or one event.
fn elements(bytes: &[u8], limits: Limits, form: Form, may_be_array: bool) -> Result<Vec<NewEvent>, DecodeError> {
    let bytes = bytes.trim_ascii();
    if bytes.first() != Some(&b'[') || !may_be_array {
        return Ok(vec![limits.event(bytes, form)?]);
    }
    let raw: Vec<&RawValue> = serde_json::from_slice(bytes)
        .map_err(|error| Refusal::new("invalid-json", format!("the body is not a JSON array: {error}")))?;
    limits.check_count(raw.len())?;
    let event = |(index, raw): (usize, &RawValue)| {
        let place = Some(Place::Index(index));
        limits.event(raw.get(), form).map_err(|refusal| DecodeError { place, refusal })
    };
    raw.into_iter().enumerate().map(event).collect()
}

/// What makes a CloudEvent one.
#[derive(Deserialize)]
struct Attributes<'e> {
    #[serde(borrow)]
    specversion: Option<Cow<'e, str>>,
    #[serde(borrow)]
    id: Option<Cow<'e, str>>,
    #[serde(borrow)]
    source: Option<Cow<'e, str>>,
    #[serde(borrow)]
    r#type: Option<Cow<'e, str>>,
}

/// The id of a CloudEvent: those of a source differ.
fn cloud_event_id(json: &[u8]) -> Result<String, Refusal> {
    let attributes: Attributes<'_> = serde_json::from_slice(json)
        .map_err(|error| invalid(format!("an attribute of the CloudEvent is not text: {error}")))?;
    let version = needed("specversion", attributes.specversion)?;
    if version != "1.0" {
        return Err(invalid(format!("the CloudEvent has specversion {version}; 1.0 is supported")));
    }
    needed("type", attributes.r#type)?;
    Ok(format!("{}/{}", needed("source", attributes.source)?, needed("id", attributes.id)?))
}

fn needed<'e>(name: &str, value: Option<Cow<'e, str>>) -> Result<Cow<'e, str>, Refusal> {
    let value = value.filter(|value| !value.is_empty());
    value.ok_or_else(|| invalid(format!("the CloudEvent has no {name}")))
}

fn invalid(message: String) -> Refusal {
    Refusal { code: "invalid-cloudevent", message }
}

#[cfg(test)]
mod tests;
