//! The envelope of every request: its id, its line in the log, its time, and its failure as a problem document.

use super::app::App;
use super::problem::{PROBLEM_JSON, Problem};
use super::request_id::{RequestId, X_REQUEST_ID};
use crate::clock::Stopwatch;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

/// Wraps a request.
pub async fn envelope(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // Paths that are no route are anybody's to invent: they would fill the metrics.
    let route = route.unwrap_or_else(|| "none".to_owned());
    let span = tracing::info_span!(
        "request",
        otel.name = %format!("{method} {route}"),
        otel.kind = "server",
        id = %id.0,
        %method,
        %route,
        token = tracing::field::Empty,
        status = tracing::field::Empty,
    );
    let watch = Stopwatch::start();
    let response = next.run(request).instrument(span.clone()).await;
    let mut response = explained(response, &id);
    let (status, took) = (response.status(), watch.elapsed());
    span.record("status", status.as_u16());
    span.in_scope(|| {
        let ms = took.as_secs_f64() * 1000.0;
        if status.is_server_error() {
            tracing::warn!(status = status.as_u16(), ms, "answered");
        } else {
            tracing::debug!(status = status.as_u16(), ms, "answered");
        }
    });
    app.measured.request(&method, &route, status, took);
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id.0) {
        headers.insert(X_REQUEST_ID, id);
    }
    // Answers hold secrets and states: nothing between may keep or guess at them.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// What failed without a problem document gets one.
fn explained(response: Response, id: &RequestId) -> Response {
    let status = response.status();
    let is_failure = status.is_client_error() || status.is_server_error();
    let content_type = response.headers().get(header::CONTENT_TYPE);
    if !is_failure || content_type.is_some_and(|kind| kind == PROBLEM_JSON) {
        return response;
    }
    let mut problem = response.extensions().get::<Problem>().cloned().unwrap_or_else(|| Problem::of_status(status));
    id.0.clone_into(&mut problem.request_id);
    let mut explained = problem.render();
    if let (StatusCode::METHOD_NOT_ALLOWED, Some(allow)) = (status, response.headers().get(header::ALLOW)) {
        explained.headers_mut().insert(header::ALLOW, allow.clone());
    }
    explained
}
