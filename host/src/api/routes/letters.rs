//! Dead letters of a rule: listed, run again, deleted.

use crate::api::access::By;
use crate::api::answers::Answered;
use crate::api::app::App;
use crate::api::body::JsonBody;
use crate::api::page::PageLimit;
use crate::service::model::{LetterFilter, LettersTaken};
use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

/// Which dead letters are shown.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Shown {
    /// Those with this reason.
    reason: Option<String>,
    /// Those of this key.
    key: Option<String>,
    /// Also those whose events ran again since.
    #[serde(default)]
    all: bool,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<usize>, minimum = 1, maximum = 10_000)]
    limit: PageLimit,
}

/// List dead letters, oldest first.
#[utoipa::path(get, path = "/v1/rules/{rule}/dead-letters", tag = "dead letters", params(Shown), responses((status = 200, body = Vec<Value>)))]
pub async fn letters(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    Query(Shown { reason, key, all, limit }): Query<Shown>,
) -> Answered<Json<Vec<Value>>> {
    let filter = LetterFilter { reason, key, all };
    let list = app.work.short(caller, move |service, caller| service.dead_letters(caller, &rule, &filter, limit.0));
    list.await.map(Json)
}

/// Which dead letters are deleted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Gone {
    /// Those with this reason.
    reason: Option<String>,
    /// Those of this key.
    key: Option<String>,
    /// All of them; needed when nothing else is said.
    #[serde(default)]
    all: bool,
}

/// Delete dead letters.
#[utoipa::path(delete, path = "/v1/rules/{rule}/dead-letters", tag = "dead letters", params(Gone), responses((status = 200, body = LettersTaken)))]
pub async fn purge(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    Query(Gone { reason, key, all }): Query<Gone>,
) -> Answered<Json<LettersTaken>> {
    let filter = LetterFilter { reason, key, all };
    app.work.waiting(caller, move |service, caller| service.purge_letters(caller, &rule, &filter)).await.map(Json)
}

/// Let the events of dead letters run again.
///
/// Each with its own event time, and never late.
#[utoipa::path(post, path = "/v1/rules/{rule}/dead-letters/re-drive", tag = "dead letters", request_body = LetterFilter, responses((status = 200, body = LettersTaken)))]
pub async fn re_drive(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    JsonBody(filter): JsonBody<LetterFilter>,
) -> Answered<Json<LettersTaken>> {
    app.work.waiting(caller, move |service, caller| service.re_drive(caller, &rule, &filter)).await.map(Json)
}
