//! Bodies of requests: read within their bounds of size, time and memory, and then looked at.

use super::app::App;
use super::problem::Problem;
use super::shape::wrong_place;
use super::shares::Share;
use crate::service::Caller;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

const KIB: usize = 1024;

/// A body, with the memory that it takes.
pub struct Received {
    /// The bytes.
    pub bytes: Bytes,
    // What was taken for it goes back when it is dropped.
    _share: Share,
}

/// A JSON body.
pub struct JsonBody<T>(pub T);

/// A JSON body that may be absent, or `null`.
pub struct MaybeJsonBody<T>(pub T);

impl<T: DeserializeOwned + Serialize> FromRequest<App> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let received = json_bytes(request, app).await?;
        parse(&received.bytes).map(JsonBody)
    }
}

impl<T: DeserializeOwned + Serialize + Default> FromRequest<App> for MaybeJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let has_type = request.headers().contains_key(header::CONTENT_TYPE);
        let received = if has_type {
            json_bytes(request, app).await?
        } else {
            receive(request, app, app.limits.json_bytes, app.limits.body_timeout).await?
        };
        let parsed = if received.bytes.is_empty() { Ok(None) } else { parse::<Option<T>>(&received.bytes) };
        parsed.map(|body| MaybeJsonBody(body.unwrap_or_default()))
    }
}

/// The bytes of a JSON body.
pub async fn json_bytes(request: Request, app: &App) -> Result<Received, Problem> {
    let content_type = media_type(request.headers());
    if content_type != "application/json" {
        return Err(unsupported(&content_type, "application/json"));
    }
    receive(request, app, app.limits.json_bytes, app.limits.body_timeout).await
}

/// Reads a body.
pub async fn receive(request: Request, app: &App, bytes_max: usize, timeout: Duration) -> Result<Received, Problem> {
    let tenant = request.extensions().get::<Caller>().and_then(|caller| caller.tenant.clone());
    let length = content_length(request.headers());
    if length.is_some_and(|length| length > bytes_max) {
        return Err(too_large(bytes_max));
    }
    // A body whose length is not said may be as long as any.
    let share = app.receiving.take(&tenant, length.unwrap_or(bytes_max).div_ceil(KIB)).await;
    let share = share.ok_or_else(Problem::busy)?;
    let bytes = tokio::time::timeout(timeout, read(request.into_body(), bytes_max)).await;
    let bytes = bytes.unwrap_or_else(|_| {
        let detail = format!("the body did not come within {} s", timeout.as_secs());
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", detail))
    })?;
    Ok(Received { bytes, _share: share })
}

async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    to_bytes(body, bytes_max).await.map_err(|error| {
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let is_length = causes.map(|cause| cause.to_string()).any(|cause| cause.contains("length limit"));
        if is_length {
            return too_large(bytes_max);
        }
        Problem::new(StatusCode::BAD_REQUEST, "body-incomplete", "the body broke off")
    })
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body is longer than {bytes_max} bytes, which is the most that this route takes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The media type in lower case, without parameters; empty when there is none.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The body is of a kind that the route does not take.
pub fn unsupported(content_type: &str, wanted: &str) -> Problem {
    let detail = match content_type {
        "" => format!("the body's Content-Type is not said: this route takes {wanted}"),
        // Not in full: it may be anything.
        _ => format!("this route takes {wanted}"),
    };
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
}

fn parse<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, Problem> {
    let parsed = serde_json::from_slice(bytes).map_err(|error| not_right(&error.to_string()))?;
    check_shape(bytes, &parsed)?;
    Ok(parsed)
}

/// Refuses a body in which an array stands for an object.
pub fn check_shape(bytes: &[u8], parsed: &impl Serialize) -> Result<(), Problem> {
    let given: Value = serde_json::from_slice(bytes).map_err(|error| not_right(&error.to_string()))?;
    let read = serde_json::to_value(parsed).map_err(|error| not_right(&error.to_string()))?;
    match wrong_place(&given, &read) {
        None => Ok(()),
        Some(place) if place.is_empty() => Err(not_right("it is no JSON object")),
        Some(place) => Err(Problem { field: Some(place.clone()), ..not_right(&format!("{place} is no JSON object")) }),
    }
}

fn not_right(why: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid", format!("the body is not right: {why}"))
}
