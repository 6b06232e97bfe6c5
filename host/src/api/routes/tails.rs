//! Tails: server-sent events without end.

use crate::api::access::By;
use crate::api::answers::Answered;
use crate::api::app::App;
use crate::api::problem::Problem;
use crate::api::tail::{self, Start};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

/// Where a tail begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct From {
    /// `start` for the oldest event that is there; absent: with what comes from now on.
    #[param(pattern = "^start$")]
    from: Option<String>,
}

impl From {
    /// Where the client was goes before what the query says: browsers repeat the query when they come again.
    fn start(self, headers: &HeaderMap) -> Result<Start, Problem> {
        let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
        match (last, self.from.as_deref()) {
            (Some(id), _) => Start::after(id).ok_or_else(|| invalid("the Last-Event-ID is none that a tail has given")),
            (None, None) => Ok(Start::End),
            (None, Some("start")) => Ok(Start::Oldest),
            (None, Some(_)) => Err(invalid("from can be start, or is left out")),
        }
    }
}

fn invalid(detail: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid", detail)
}

/// Follow a stream.
///
/// Server-sent events: each has a line of JSON as `events` has them. With the header `Last-Event-ID` it goes on where it was. It ends
/// with the token, and when the server stops.
#[utoipa::path(get, path = "/v1/streams/{stream}/tail", tag = "events", params(From,
    ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen", pattern = "^[0-9]+([.][0-9]+)*$")),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn stream_tail(
    State(app): State<App>,
    By(caller): By,
    Path(stream): Path<String>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Answered<Response> {
    tail::of_stream(app, caller, stream, from.start(&headers)?).await
}

/// Follow what a rule puts out.
///
/// As the tail of a stream. Only for rules whose outputs go to a stream.
#[utoipa::path(get, path = "/v1/rules/{rule}/outputs", tag = "rules", params(From,
    ("Last-Event-ID" = Option<String>, Header, description = "The id of the last output that was seen", pattern = "^[0-9]+([.][0-9]+)*$")),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn outputs(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Answered<Response> {
    tail::of_outputs(app, caller, rule, from.start(&headers)?).await
}

/// Follow what a rule logs.
///
/// Lines are kept for nobody: those that are written faster than they are read are dropped, and counted in the next one.
#[utoipa::path(get, path = "/v1/rules/{rule}/log", tag = "rules", responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn log(State(app): State<App>, By(caller): By, Path(rule): Path<String>) -> Answered<Response> {
    tail::of_log(app, caller, rule).await
}
