//! Decisions: one event is put through a rule, and its answer waited for.

use super::events::EventsRequest;
use crate::api::access::By;
use crate::api::answers::Answered;
use crate::api::app::App;
use crate::service::model::Decision;
use crate::service::{Caller, Service};
use axum::Json;
use axum::extract::{Path, State};

/// Put one event through a rule and hear what it says.
///
/// Answers after the commit of its batch, or at the rule's deadline with the declared default; the event is then put through the rule
/// all the same.
#[utoipa::path(post, path = "/v1/rules/{rule}/decide", tag = "events",
    request_body(content((Map<String, Value> = "application/json"), (Map<String, Value> = "application/cloudevents+json"))),
    responses((status = 200, body = Decision)))]
pub async fn decide(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    event: EventsRequest,
) -> Answered<Json<Decision>> {
    let decide = move |service: &Service, caller: &Caller| service.decide(caller, &rule, &event.body());
    app.work.waiting(caller, decide).await.map(Json)
}
