//! [`RequestId`]: what a request is called in answers, in the log and in the audit.

use axum::http::{HeaderMap, HeaderName};
use uuid::Uuid;

/// The header that may have an id, and in every answer has it.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ids would fill the log.
const BYTES_MAX: usize = 64;

/// What a request is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub String);

impl RequestId {
    /// The client's id when it is fit to be written anywhere, or else a new one.
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok());
        let is_fit = |id: &&str| {
            (1..=BYTES_MAX).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
        };
        RequestId(given.filter(is_fit).map_or_else(|| Uuid::now_v7().to_string(), str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_would_forge_a_log_line_are_replaced() {
        let id = |given: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, given.parse().expect("it is a header"));
            RequestId::of(&headers).0
        };
        assert_eq!(id("trace-1.2:a_b"), "trace-1.2:a_b");
        for given in ["", "a b", "a\tb", "\"", &"x".repeat(65)] {
            assert_ne!(id(given), given);
        }
        assert_ne!(RequestId::of(&HeaderMap::new()), RequestId::of(&HeaderMap::new()));
    }
}
