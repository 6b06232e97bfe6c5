//! The router: each route with who may use it. What is not listed here does not exist.

use super::access::guard;
use super::app::App;
use super::envelope::envelope;
use super::problem::Problem;
use super::routes::{
    activations, audit, decide, events, letters, open, rules, streams, tails, tenants, tokens, versions,
};
use crate::service::Operation;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::any::Any;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

/// A route: who may use it (None: everybody, without a token), and whether its answer has no end.
pub struct Listed {
    /// What it does; None when everybody may.
    pub operation: Option<Operation>,
    /// Whether its answer has an end, and so a time by which it must be there.
    pub has_end: bool,
    /// Its handler, and what the document says of it.
    pub routes: UtoipaMethodRouter<App>,
}

/// All routes.
pub fn listed() -> Vec<Listed> {
    use Operation as O;
    let for_all = |routes| Listed { operation: None, has_end: true, routes };
    let may = |operation, routes| Listed { operation: Some(operation), has_end: true, routes };
    let endless = |operation, routes| Listed { operation: Some(operation), has_end: false, routes };
    vec![
        for_all(routes!(open::healthz)),
        for_all(routes!(open::readyz)),
        for_all(routes!(open::openapi_json)),
        may(O::METRICS, routes!(open::metrics)),
        may(O::WHOAMI, routes!(open::whoami)),
        may(O::TENANT_CREATE, routes!(tenants::create_tenant)),
        may(O::TENANT_LIST, routes!(tenants::tenants)),
        may(O::TENANT_READ, routes!(tenants::tenant)),
        may(O::TENANT_CHANGE, routes!(tenants::change_tenant)),
        may(O::TENANT_DELETE, routes!(tenants::delete_tenant)),
        may(O::TENANT_TOKEN_CREATE, routes!(tenants::create_tenant_token)),
        may(O::TOKEN_CREATE, routes!(tokens::create_token)),
        may(O::TOKEN_LIST, routes!(tokens::tokens)),
        may(O::TOKEN_ROTATE, routes!(tokens::rotate_token)),
        may(O::TOKEN_REVOKE, routes!(tokens::revoke_token)),
        may(O::STREAM_PUT, routes!(streams::put_stream)),
        may(O::STREAM_LIST, routes!(streams::streams)),
        may(O::STREAM_READ, routes!(streams::stream)),
        may(O::STREAM_DELETE, routes!(streams::delete_stream)),
        may(O::EVENTS_APPEND, routes!(events::append)),
        may(O::EVENTS_READ, routes!(events::read)),
        endless(O::EVENTS_READ, routes!(tails::stream_tail)),
        may(O::RULE_PUT, routes!(rules::put_rule)),
        may(O::RULE_LIST, routes!(rules::rules)),
        may(O::RULE_READ, routes!(rules::rule)),
        may(O::RULE_DELETE, routes!(rules::delete_rule)),
        may(O::VERSION_UPLOAD, routes!(versions::upload)),
        may(O::VERSION_LIST, routes!(versions::versions)),
        may(O::VERSION_READ, routes!(versions::version)),
        may(O::RULE_ACTIVATE, routes!(activations::activate)),
        may(O::RULE_ROLLBACK, routes!(activations::rollback)),
        may(O::RULE_PAUSE, routes!(rules::pause)),
        may(O::RULE_RESUME, routes!(rules::resume)),
        may(O::ACTIVATION_LIST, routes!(activations::activations)),
        may(O::RULE_PROGRESS, routes!(rules::progress)),
        endless(O::RULE_LOG, routes!(tails::log)),
        endless(O::RULE_OUTPUTS, routes!(tails::outputs)),
        may(O::RULE_DECIDE, routes!(decide::decide)),
        may(O::LETTERS_READ, routes!(letters::letters)),
        may(O::LETTERS_PURGE, routes!(letters::purge)),
        may(O::LETTERS_RE_DRIVE, routes!(letters::re_drive)),
        may(O::STATE_READ, routes!(rules::state)),
        may(O::AUDIT_READ, routes!(audit::audit)),
    ]
}

/// The router of a server.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for Listed { operation, has_end, routes: (_, paths, mut handler) } in listed() {
        if let Some(operation) = operation {
            handler = handler.route_layer(from_fn_with_state((app.clone(), operation), guard));
        }
        if has_end {
            handler = handler.route_layer(from_fn_with_state(app.clone(), in_time));
        }
        for path in paths.paths.keys() {
            router = router.route(path, handler.clone());
        }
    }
    router.layer(CatchPanicLayer::custom(panicked)).layer(from_fn_with_state(app.clone(), envelope)).with_state(app)
}

/// Answers that it takes too long, when it does. Work that has begun goes on.
async fn in_time(State(app): State<App>, request: Request, next: Next) -> Response {
    let limit = app.limits.request_timeout;
    tokio::time::timeout(limit, next.run(request)).await.unwrap_or_else(|_| {
        let detail = format!(
            "this was not done within {} s, and may still be done: look before you repeat it, or repeat events with an \
             Idempotency-Key",
            limit.as_secs()
        );
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", detail).into_response()
    })
}

/// The panic was logged where it happened.
fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    let detail = "the server failed to do this: its log has the reason under the id of the request";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
}
