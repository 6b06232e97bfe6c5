//! Who may use a route: a token, its role, its tenant's rate, in this order and before any of the body is read.

use super::app::App;
use super::problem::Problem;
use super::request_id::RequestId;
use crate::service::{Caller, Operation};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The caller, who may do what the route does.
pub struct By(pub Caller);

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Only routes that are for everybody have none, and those do not ask.
        parts.extensions.get::<Caller>().cloned().map(By).ok_or_else(unauthorized)
    }
}

/// What a route is for.
pub type Route = (App, Operation);

/// Lets a request through to a route, if its token may.
pub async fn guard(State((app, operation)): State<Route>, mut request: Request, next: Next) -> Response {
    match caller(&app, operation, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn caller(app: &App, operation: Operation, request: &Request) -> Result<Caller, Problem> {
    let secret = bearer(request.headers()).ok_or_else(unauthorized)?;
    let caller = app.service.authenticate(secret).ok_or_else(unauthorized)?;
    let id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let caller = caller.with_request_id(id);
    tracing::Span::current().record("token", caller.name.as_str());
    app.service.admit(&caller)?;
    // The service asks itself once more. Here it is asked so that nobody sends a large body for nothing.
    app.service.check(&caller, operation, request.uri().path())?;
    Ok(caller)
}

/// The secret behind `Authorization: Bearer`. Two such headers are none: what stands between might have looked at the other one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && values.next().is_none();
    is_bearer.then(|| secret.trim())
}

fn unauthorized() -> Problem {
    let detail = "no token, or one that does not hold: send 'Authorization: Bearer' and a token's secret";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_bearer_token_is_taken() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, (*value).parse().expect("it is a header"));
            }
            headers
        };
        assert_eq!(bearer(&headers(&["Bearer kf_1"])), Some("kf_1"));
        assert_eq!(bearer(&headers(&["bearer  kf_1 "])), Some("kf_1"));
        for values in [&["Basic kf_1"][..], &["Bearerkf_1"], &[], &["Bearer kf_1", "Bearer kf_2"]] {
            assert_eq!(bearer(&headers(values)), None);
        }
    }
}
