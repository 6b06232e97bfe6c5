//! [`Problem`]: what went wrong, for programs (a code) and for people (a sentence), after RFC 9457.

use crate::service::{ErrorKind, ServiceError};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// What went wrong. The same thing has the same code for ever; the sentence may change.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Problem {
    /// A URN made from the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A stable word for programs, such as `rule-not-found`.
    pub code: String,
    /// What is wrong and what to do.
    pub detail: String,
    /// Under this id the server's log has the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// The wrong field of the request, such as `inputs.payments.key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The quota that is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
    /// How much of it is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much would be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// When it may go through.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// The media type of problem documents.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// When the server is busy, and nobody knows for how long.
pub const BUSY_RETRY: Duration = Duration::from_secs(1);

impl Problem {
    /// A problem with this status.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Problem {
            kind: format!("urn:keyfold:problem:{code}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            code: code.to_owned(),
            detail: detail.into(),
            request_id: String::new(),
            field: None,
            quota: None,
            limit: None,
            used: None,
            retry_after: None,
        }
    }

    /// There is no room for this request now.
    pub fn busy() -> Self {
        let detail = "too many of your requests are running: send fewer at the same time, or try again";
        Problem { retry_after: Some(BUSY_RETRY), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail) }
    }

    /// What a status without words means: written by a layer that knows nothing of problems.
    pub fn of_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::BAD_REQUEST => ("malformed", "the path or the query is not what this route takes"),
            StatusCode::NOT_FOUND => ("no-such-route", "there is no such route: see /openapi.json"),
            StatusCode::METHOD_NOT_ALLOWED => ("method-not-allowed", "the header Allow has what this route takes"),
            _ => ("failed", "the request was not done"),
        };
        Problem::new(status, code, detail)
    }

    /// The document as an answer.
    pub fn render(&self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if let Some(wait) = self.retry_after {
            // Whole seconds, and never none: clients would come again at once.
            let seconds = wait.as_millis().div_ceil(1000).max(1) as u64;
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for Problem {
    /// Without a body: the envelope of the request writes it, because only that knows the request's id.
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let ServiceError { kind, code, message } = error;
        let problem = |status| Problem::new(status, code, message.clone());
        match kind {
            ErrorKind::NotFound => problem(StatusCode::NOT_FOUND),
            ErrorKind::Forbidden => problem(StatusCode::FORBIDDEN),
            ErrorKind::Invalid { field } => Problem { field, ..problem(StatusCode::BAD_REQUEST) },
            ErrorKind::UnsupportedType => problem(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            ErrorKind::TooLarge => problem(StatusCode::PAYLOAD_TOO_LARGE),
            ErrorKind::Conflict => problem(StatusCode::CONFLICT),
            ErrorKind::TooMany { retry_after } => {
                Problem { retry_after: Some(retry_after), ..problem(StatusCode::TOO_MANY_REQUESTS) }
            }
            ErrorKind::Quota { quota, limit, used } => Problem {
                quota: Some(quota.to_owned()),
                limit: Some(limit),
                used: Some(used),
                ..problem(StatusCode::FORBIDDEN)
            },
            ErrorKind::Unavailable { retry_after } => {
                let status = match code {
                    "storage-full" => StatusCode::INSUFFICIENT_STORAGE,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                Problem { retry_after: retry_after.or(Some(BUSY_RETRY)), ..problem(status) }
            }
            ErrorKind::Internal => problem(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_status() {
        let second = Duration::from_millis(1200);
        for (kind, status) in [
            (ErrorKind::NotFound, 404),
            (ErrorKind::Forbidden, 403),
            (ErrorKind::Invalid { field: Some("inputs.a".into()) }, 400),
            (ErrorKind::TooLarge, 413),
            (ErrorKind::Conflict, 409),
            (ErrorKind::TooMany { retry_after: second }, 429),
            (ErrorKind::Quota { quota: "rules", limit: 1, used: 2 }, 403),
            (ErrorKind::Unavailable { retry_after: None }, 503),
            (ErrorKind::Internal, 500),
        ] {
            let problem = Problem::from(ServiceError { kind, code: "a-code", message: "why".into() });
            let response = problem.render();
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_JSON);
        }
    }

    #[test]
    fn waiting_is_told_in_whole_seconds_rounded_up() {
        let error = ServiceError::too_many("rate", Duration::from_millis(1200), "slower");
        assert_eq!(Problem::from(error).render().headers()[header::RETRY_AFTER], "2");
        assert_eq!(Problem::busy().render().headers()[header::RETRY_AFTER], "1");
    }
}
