//! Routes that say nothing of anybody: whether the server lives, whether it is ready, what its routes are; and who is asking.

use crate::api::access::By;
use crate::api::answers::Answered;
use crate::api::app::App;
use crate::api::{metrics, openapi};
use crate::service::model::WhoAmI;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// Whether something is as it should be.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`, or why not.
    pub status: &'static str,
}

/// Whether the process lives.
///
/// For whoever restarts it when it does not answer.
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether requests can be served.
///
/// For load balancers: not while the server starts or stops.
#[utoipa::path(get, path = "/readyz", tag = "server", responses((status = 200, body = Health)))]
pub async fn readyz(State(app): State<App>) -> Response {
    if app.service.is_ready() && !app.is_stopping() {
        return Json(Health { status: "ok" }).into_response();
    }
    let detail = "the server starts or stops";
    let problem = crate::api::problem::Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", detail);
    problem.into_response()
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "server", responses((status = 200, content_type = "application/json")))]
pub async fn openapi_json() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi::text()).into_response()
}

/// What is measured, for Prometheus.
///
/// A token of a tenant sees what is its tenant's; a platform token sees all of it.
#[utoipa::path(get, path = "/metrics", tag = "server", responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
pub async fn metrics(State(app): State<App>, By(caller): By) -> Answered<Response> {
    let is_platform = caller.tenant.is_none();
    let snapshot = app.work.short(caller, |service, caller| service.metrics(caller)).await?;
    let text = metrics::text(&snapshot, is_platform.then_some(&app.measured), app.limits.metrics_rules);
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

/// Who asks.
#[utoipa::path(get, path = "/v1/whoami", tag = "tokens", responses((status = 200, body = WhoAmI)))]
pub async fn whoami(State(app): State<App>, By(caller): By) -> Answered<Json<WhoAmI>> {
    app.work.short(caller, |service, caller| service.whoami(caller)).await.map(Json)
}
