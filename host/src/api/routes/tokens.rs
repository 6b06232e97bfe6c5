//! Tokens of a tenant, or of the platform.

use crate::api::access::By;
use crate::api::answers::{Answered, Created, Done};
use crate::api::app::App;
use crate::api::body::{JsonBody, MaybeJsonBody};
use crate::service::model::{NewToken, Rotate, Token, TokenSecret};
use axum::Json;
use axum::extract::{Path, State};

/// Make a token.
///
/// Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", request_body = NewToken, responses((status = 201, body = TokenSecret)))]
pub async fn create_token(
    State(app): State<App>,
    By(caller): By,
    JsonBody(new): JsonBody<NewToken>,
) -> Answered<Created<TokenSecret>> {
    app.work.short(caller, move |service, caller| service.create_token(caller, &new)).await.map(Created)
}

/// List the tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", responses((status = 200, body = Vec<Token>)))]
pub async fn tokens(State(app): State<App>, By(caller): By) -> Answered<Json<Vec<Token>>> {
    app.work.short(caller, |service, caller| service.tokens(caller)).await.map(Json)
}

/// Give a token a new secret.
///
/// The old one ends at once, or after the grace time.
#[utoipa::path(post, path = "/v1/tokens/{token}/rotate", tag = "tokens", request_body = Option<Rotate>, responses((status = 200, body = TokenSecret)))]
pub async fn rotate_token(
    State(app): State<App>,
    By(caller): By,
    Path(token): Path<String>,
    MaybeJsonBody(rotate): MaybeJsonBody<Rotate>,
) -> Answered<Json<TokenSecret>> {
    app.work.short(caller, move |service, caller| service.rotate_token(caller, &token, &rotate)).await.map(Json)
}

/// End a token.
///
/// At once: what it has open ends, too.
#[utoipa::path(delete, path = "/v1/tokens/{token}", tag = "tokens", responses((status = 204)))]
pub async fn revoke_token(State(app): State<App>, By(caller): By, Path(token): Path<String>) -> Answered<Done> {
    app.work.short(caller, move |service, caller| service.revoke_token(caller, &token)).await.map(|()| Done)
}
