//! Tenants, for whoever runs the server.

use crate::api::access::By;
use crate::api::answers::{Answered, Created, Done};
use crate::api::app::App;
use crate::api::body::JsonBody;
use crate::service::model::{NewTenant, NewToken, Quotas, Tenant, TokenSecret};
use axum::Json;
use axum::extract::{Path, State};

/// Make a tenant.
#[utoipa::path(post, path = "/v1/tenants", tag = "tenants", request_body = NewTenant, responses((status = 201, body = Tenant)))]
pub async fn create_tenant(
    State(app): State<App>,
    By(caller): By,
    JsonBody(new): JsonBody<NewTenant>,
) -> Answered<Created<Tenant>> {
    app.work.short(caller, move |service, caller| service.create_tenant(caller, &new)).await.map(Created)
}

/// List the tenants.
#[utoipa::path(get, path = "/v1/tenants", tag = "tenants", responses((status = 200, body = Vec<Tenant>)))]
pub async fn tenants(State(app): State<App>, By(caller): By) -> Answered<Json<Vec<Tenant>>> {
    app.work.short(caller, |service, caller| service.tenants(caller)).await.map(Json)
}

/// Show a tenant.
#[utoipa::path(get, path = "/v1/tenants/{tenant}", tag = "tenants", responses((status = 200, body = Tenant)))]
pub async fn tenant(State(app): State<App>, By(caller): By, Path(tenant): Path<String>) -> Answered<Json<Tenant>> {
    app.work.short(caller, move |service, caller| service.tenant(caller, &tenant)).await.map(Json)
}

/// Change the quotas of a tenant; what is not named stays.
#[utoipa::path(patch, path = "/v1/tenants/{tenant}", tag = "tenants", request_body = Quotas, responses((status = 200, body = Tenant)))]
pub async fn change_tenant(
    State(app): State<App>,
    By(caller): By,
    Path(tenant): Path<String>,
    JsonBody(quotas): JsonBody<Quotas>,
) -> Answered<Json<Tenant>> {
    app.work.short(caller, move |service, caller| service.change_tenant(caller, &tenant, &quotas)).await.map(Json)
}

/// Delete a tenant with all that it has.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}", tag = "tenants", responses((status = 204)))]
pub async fn delete_tenant(State(app): State<App>, By(caller): By, Path(tenant): Path<String>) -> Answered<Done> {
    app.work.waiting(caller, move |service, caller| service.delete_tenant(caller, &tenant)).await.map(|()| Done)
}

/// Make a token for a tenant.
///
/// Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/tokens", tag = "tenants", request_body = NewToken, responses((status = 201, body = TokenSecret)))]
pub async fn create_tenant_token(
    State(app): State<App>,
    By(caller): By,
    Path(tenant): Path<String>,
    JsonBody(new): JsonBody<NewToken>,
) -> Answered<Created<TokenSecret>> {
    let made = app.work.short(caller, move |service, caller| service.create_tenant_token(caller, &tenant, &new));
    made.await.map(Created)
}
