//! The audit: who did what.

use crate::api::access::By;
use crate::api::answers::Answered;
use crate::api::app::App;
use crate::api::page::PageLimit;
use crate::service::AuditQuery;
use crate::service::model::AuditEntry;
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use utoipa::IntoParams;

/// Which entries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// Only those with a greater number.
    #[serde(default)]
    after: u64,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<usize>, minimum = 1, maximum = 10_000)]
    limit: PageLimit,
}

/// Read the audit, oldest first.
///
/// A tenant's admin reads what was done in its tenant; a platform token reads all of it.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(Which), responses((status = 200, body = Vec<AuditEntry>)))]
pub async fn audit(
    State(app): State<App>,
    By(caller): By,
    Query(Which { after, limit }): Query<Which>,
) -> Answered<Json<Vec<AuditEntry>>> {
    let query = AuditQuery { after, limit: Some(limit.0) };
    app.work.short(caller, move |service, caller| service.audit(caller, query)).await.map(Json)
}
