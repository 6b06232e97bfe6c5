//! Events: taken, and read back.

use crate::api::access::By;
use crate::api::answers::Answered;
use crate::api::app::App;
use crate::api::body::{media_type, receive};
use crate::api::page::PageLimit;
use crate::api::problem::Problem;
use crate::service::model::{Appended, ReadEvent};
use crate::service::{EventsBody, EventsQuery};
use axum::Json;
use axum::extract::{FromRequest, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

/// Where reading goes on: the number of the event after the last one of the answer.
const NEXT: HeaderName = HeaderName::from_static("keyfold-next");
/// The header that makes a request one that can be repeated.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Keys are short: they are remembered with the events.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// A body of events with the headers that say what it is.
pub struct EventsRequest {
    content_type: String,
    cloud_event_headers: Vec<(String, String)>,
    idempotency_key: Option<String>,
    received: crate::api::body::Received,
}

impl EventsRequest {
    /// As the service takes it.
    pub fn body(&self) -> EventsBody<'_> {
        EventsBody {
            content_type: &self.content_type,
            cloud_event_headers: &self.cloud_event_headers,
            body: &self.received.bytes,
            idempotency_key: self.idempotency_key.as_deref(),
        }
    }
}

impl FromRequest<App> for EventsRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let headers = request.headers();
        let content_type = match media_type(headers) {
            empty if empty.is_empty() => {
                return Err(crate::api::body::unsupported("", "JSON lines, JSON or CloudEvents"));
            }
            _ => text(headers, &header::CONTENT_TYPE)?.unwrap_or_default(),
        };
        let idempotency_key = text(headers, &IDEMPOTENCY_KEY)?;
        if idempotency_key.as_ref().is_some_and(|key| key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX) {
            let detail = format!("the Idempotency-Key is empty or longer than {IDEMPOTENCY_KEY_BYTES_MAX} bytes");
            return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid", detail));
        }
        let cloud_event_headers = cloud_event_headers(headers)?;
        let received = receive(request, app, app.limits.events_bytes, app.limits.body_timeout).await?;
        Ok(EventsRequest { content_type, cloud_event_headers, idempotency_key, received })
    }
}

fn cloud_event_headers(headers: &HeaderMap) -> Result<Vec<(String, String)>, Problem> {
    let mut found = Vec::new();
    for name in headers.keys().filter(|name| name.as_str().starts_with("ce-")) {
        if let Some(value) = text(headers, name)? {
            found.push((name.as_str().to_owned(), value));
        }
    }
    Ok(found)
}

/// The only value of a header. Several values are an error: nobody could say which one is meant.
fn text(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str().map(str::to_owned)).transpose().ok().flatten();
    if values.next().is_some() || (value.is_none() && headers.contains_key(name)) {
        let detail = format!("the header {name} stands there twice, or is no text");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid", detail));
    }
    Ok(value)
}

/// An event, or several ones.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it describes what is sent")]
pub enum JsonEvents {
    /// An event.
    One(Map<String, Value>),
    /// Several ones.
    Several(Vec<Map<String, Value>>),
}

/// Take events.
///
/// Answers when they are on the disk. The whole body is taken, or nothing of it. A body that was sent with an `Idempotency-Key` can be
/// sent again with it: it is taken once, and the answer is the first one's.
#[utoipa::path(post, path = "/v1/streams/{stream}/events", tag = "events",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request one that can be repeated", min_length = 1, max_length = 200)),
    request_body(description = "JSON lines, an event or an array of them, or CloudEvents", content(
        (JsonEvents = "application/json"), (String = "application/x-ndjson"), (String = "application/jsonl"),
        (Map<String, Value> = "application/cloudevents+json"), (Vec<Map<String, Value>> = "application/cloudevents-batch+json"))),
    responses((status = 200, body = Appended)))]
pub async fn append(
    State(app): State<App>,
    By(caller): By,
    Path(stream): Path<String>,
    events: EventsRequest,
) -> Answered<Json<Appended>> {
    let append = move |service: &crate::service::Service, caller: &crate::service::Caller| {
        service.append(caller, &stream, &events.body())
    };
    app.work.waiting(caller, append).await.map(Json)
}

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// The partition; absent: the first one.
    #[serde(default)]
    partition: u32,
    /// The number of the first event; absent: the oldest that is there.
    from: Option<u64>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<usize>, minimum = 1, maximum = 10_000)]
    limit: PageLimit,
}

/// Read events back.
///
/// One line of JSON for each. The header `Keyfold-Next` has the number to go on with.
#[utoipa::path(get, path = "/v1/streams/{stream}/events", tag = "events", params(Which),
    responses((status = 200, body = ReadEvent, content_type = "application/x-ndjson",
        headers(("Keyfold-Next" = u64, description = "The number to go on with")))))]
pub async fn read(
    State(app): State<App>,
    By(caller): By,
    Path(stream): Path<String>,
    Query(which): Query<Which>,
) -> Answered<Response> {
    let query = EventsQuery { partition: which.partition, from: which.from, limit: Some(which.limit.0) };
    let page = app.work.short(caller, move |service, caller| service.read_events(caller, &stream, &query)).await?;
    let mut lines = Vec::new();
    for event in &page.events {
        // What was read from the log is JSON: writing it to memory cannot fail.
        if serde_json::to_writer(&mut lines, event).is_ok() {
            lines.push(b'\n');
        }
    }
    let mut response = ([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response();
    response.headers_mut().insert(NEXT, HeaderValue::from(page.next));
    Ok(response)
}
