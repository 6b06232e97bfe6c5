//! Streams: made, changed, looked at, deleted.

use crate::api::access::By;
use crate::api::answers::{Answered, Done, Placed};
use crate::api::app::App;
use crate::api::body::MaybeJsonBody;
use crate::service::model::{Stream, StreamSettings};
use axum::Json;
use axum::extract::{Path, State};

/// Make a stream, or change its settings.
///
/// Partitions and key never change.
#[utoipa::path(put, path = "/v1/streams/{stream}", tag = "streams", request_body = Option<StreamSettings>,
    responses((status = 200, body = Stream), (status = 201, body = Stream)))]
pub async fn put_stream(
    State(app): State<App>,
    By(caller): By,
    Path(stream): Path<String>,
    MaybeJsonBody(settings): MaybeJsonBody<StreamSettings>,
) -> Answered<Placed<Stream>> {
    app.work.waiting(caller, move |service, caller| service.put_stream(caller, &stream, &settings)).await.map(Placed)
}

/// List the streams.
#[utoipa::path(get, path = "/v1/streams", tag = "streams", responses((status = 200, body = Vec<Stream>)))]
pub async fn streams(State(app): State<App>, By(caller): By) -> Answered<Json<Vec<Stream>>> {
    app.work.short(caller, |service, caller| service.streams(caller)).await.map(Json)
}

/// Show a stream, its partitions, and who reads it.
#[utoipa::path(get, path = "/v1/streams/{stream}", tag = "streams", responses((status = 200, body = Stream)))]
pub async fn stream(State(app): State<App>, By(caller): By, Path(stream): Path<String>) -> Answered<Json<Stream>> {
    app.work.short(caller, move |service, caller| service.stream(caller, &stream)).await.map(Json)
}

/// Delete a stream with its events.
///
/// Not while a rule reads it or writes to it.
#[utoipa::path(delete, path = "/v1/streams/{stream}", tag = "streams", responses((status = 204)))]
pub async fn delete_stream(State(app): State<App>, By(caller): By, Path(stream): Path<String>) -> Answered<Done> {
    app.work.waiting(caller, move |service, caller| service.delete_stream(caller, &stream)).await.map(|()| Done)
}
