//! Rules: made, changed, looked at, paused, deleted.

use crate::api::access::By;
use crate::api::answers::{Answered, Done, Placed};
use crate::api::app::App;
use crate::api::body::{Received, check_shape, json_bytes};
use crate::api::problem::Problem;
use crate::service::model::{Manifest, Rule};
use crate::service::{DeleteRule, Service};
use axum::Json;
use axum::extract::{FromRequest, Path, Query, Request, State};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

/// A manifest, with the memory that it takes.
pub struct ManifestBody(Manifest, Received);

impl FromRequest<App> for ManifestBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let received = json_bytes(request, app).await?;
        let manifest = Service::parse_manifest(&received.bytes)?;
        check_shape(&received.bytes, &manifest)?;
        Ok(ManifestBody(manifest, received))
    }
}

/// Make a rule, or change it.
///
/// What cannot change once there are states (partitions, keys, event times) is refused. Parameters and limits change like a version: at
/// the end of a batch.
#[utoipa::path(put, path = "/v1/rules/{rule}", tag = "rules", request_body = Manifest,
    responses((status = 200, body = Rule), (status = 201, body = Rule)))]
pub async fn put_rule(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    ManifestBody(manifest, received): ManifestBody,
) -> Answered<Placed<Rule>> {
    let put = move |service: &Service, caller: &crate::service::Caller| {
        // The memory is taken as long as the manifest lives.
        let _received = received;
        service.put_rule(caller, &rule, &manifest)
    };
    app.work.waiting(caller, put).await.map(Placed)
}

/// List the rules.
#[utoipa::path(get, path = "/v1/rules", tag = "rules", responses((status = 200, body = Vec<Rule>)))]
pub async fn rules(State(app): State<App>, By(caller): By) -> Answered<Json<Vec<Rule>>> {
    app.work.short(caller, |service, caller| service.rules(caller)).await.map(Json)
}

/// Show a rule and what it does now.
#[utoipa::path(get, path = "/v1/rules/{rule}", tag = "rules", responses((status = 200, body = Rule)))]
pub async fn rule(State(app): State<App>, By(caller): By, Path(rule): Path<String>) -> Answered<Json<Rule>> {
    app.work.short(caller, move |service, caller| service.rule(caller, &rule)).await.map(Json)
}

/// How a rule goes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct How {
    /// For how long timeouts may still fire, such as `30m`; absent: the rule goes at once.
    #[param(pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    drain: Option<String>,
}

/// Delete a rule with its states.
#[utoipa::path(delete, path = "/v1/rules/{rule}", tag = "rules", params(How), responses((status = 204)))]
pub async fn delete_rule(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    Query(how): Query<How>,
) -> Answered<Done> {
    let delete = DeleteRule { drain: how.drain };
    app.work.waiting(caller, move |service, caller| service.delete_rule(caller, &rule, &delete)).await.map(|()| Done)
}

/// Stop a rule at the end of its batch.
///
/// It keeps its states and its place in its streams.
#[utoipa::path(post, path = "/v1/rules/{rule}/pause", tag = "rules", responses((status = 200, body = Rule)))]
pub async fn pause(State(app): State<App>, By(caller): By, Path(rule): Path<String>) -> Answered<Json<Rule>> {
    app.work.waiting(caller, move |service, caller| service.pause(caller, &rule)).await.map(Json)
}

/// Let a rule go on that was paused or quarantined.
#[utoipa::path(post, path = "/v1/rules/{rule}/resume", tag = "rules", responses((status = 200, body = Rule)))]
pub async fn resume(State(app): State<App>, By(caller): By, Path(rule): Path<String>) -> Answered<Json<Rule>> {
    app.work.waiting(caller, move |service, caller| service.resume(caller, &rule)).await.map(Json)
}

/// Show what the last batches did, oldest first.
///
/// With the field names of Spark's `StreamingQueryProgress`.
#[utoipa::path(get, path = "/v1/rules/{rule}/progress", tag = "rules", responses((status = 200, body = Vec<Value>)))]
pub async fn progress(State(app): State<App>, By(caller): By, Path(rule): Path<String>) -> Answered<Json<Vec<Value>>> {
    app.work.short(caller, move |service, caller| service.progress(caller, &rule)).await.map(Json)
}

/// Which key.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Key {
    /// The key.
    key: String,
}

/// Show the state of a key.
#[utoipa::path(get, path = "/v1/rules/{rule}/state", tag = "rules", params(Key), responses((status = 200, body = Value)))]
pub async fn state(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    Query(Key { key }): Query<Key>,
) -> Answered<Json<Value>> {
    app.work.short(caller, move |service, caller| service.state(caller, &rule, &key)).await.map(Json)
}
