//! Activations: another version takes over, forwards or back.

use crate::api::access::By;
use crate::api::answers::Answered;
use crate::api::app::App;
use crate::api::body::{JsonBody, MaybeJsonBody};
use crate::service::model::{Activate, ActivationRecord, Rollback};
use axum::Json;
use axum::extract::{Path, State};

/// Let a version run.
///
/// From the next batch on. Answers when it does. What becomes of the states that are there must be said when there are some.
#[utoipa::path(post, path = "/v1/rules/{rule}/activate", tag = "versions", request_body = Activate, responses((status = 200, body = ActivationRecord)))]
pub async fn activate(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    JsonBody(activate): JsonBody<Activate>,
) -> Answered<Json<ActivationRecord>> {
    app.work.waiting(caller, move |service, caller| service.activate(caller, &rule, &activate)).await.map(Json)
}

/// Let the version before run again.
#[utoipa::path(post, path = "/v1/rules/{rule}/rollback", tag = "versions", request_body = Option<Rollback>, responses((status = 200, body = ActivationRecord)))]
pub async fn rollback(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    MaybeJsonBody(rollback): MaybeJsonBody<Rollback>,
) -> Answered<Json<ActivationRecord>> {
    app.work.waiting(caller, move |service, caller| service.rollback(caller, &rule, &rollback)).await.map(Json)
}

/// List what ran when, newest first, and who let it.
#[utoipa::path(get, path = "/v1/rules/{rule}/activations", tag = "versions", responses((status = 200, body = Vec<ActivationRecord>)))]
pub async fn activations(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
) -> Answered<Json<Vec<ActivationRecord>>> {
    app.work.short(caller, move |service, caller| service.activations(caller, &rule)).await.map(Json)
}
