//! [`ServiceError`]: why a request was not done, by whose fault, with a code for programs and a message for people.

use std::fmt;
use std::time::Duration;

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceError {
    /// By whose fault: decides the HTTP status.
    pub kind: ErrorKind,
    /// A stable word for programs, such as `rule-not-found`.
    pub code: &'static str,
    /// What is wrong and what to do, for people. Names nothing that the caller may not know.
    pub message: String,
}

/// By whose fault a request was not done.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorKind {
    /// There is no such thing, or it is another tenant's: nobody can tell which. 404.
    NotFound,
    /// The token's role does not allow it. 403.
    Forbidden,
    /// The request is wrong. 400.
    Invalid {
        /// The wrong field, such as `inputs.payments.key`; None when it is not one field.
        field: Option<String>,
    },
    /// The content type is none that holds events. 415.
    UnsupportedType,
    /// The body is larger than allowed. 413.
    TooLarge,
    /// It cannot be done in the present state. 409.
    Conflict,
    /// Too much in a short time. 429.
    TooMany {
        /// When it may go through.
        retry_after: Duration,
    },
    /// The tenant has used up a quota, which time does not mend. 403, with these members.
    Quota {
        /// The quota, as in `Quotas`.
        quota: &'static str,
        /// How much is allowed.
        limit: u64,
        /// How much would be used.
        used: u64,
    },
    /// Not now: the server stops, or its disk is full. 503, or 507 for the code `storage-full`.
    Unavailable {
        /// When it may go through.
        retry_after: Option<Duration>,
    },
    /// Our fault. The cause is in the log. 500.
    Internal,
}

impl ServiceError {
    /// There is no such thing. `what` is a word such as `rule`.
    pub fn not_found(code: &'static str, what: &str) -> Self {
        ServiceError { kind: ErrorKind::NotFound, code, message: format!("there is no such {what}") }
    }

    /// The role does not allow it.
    pub fn forbidden(message: impl Into<String>) -> Self {
        ServiceError { kind: ErrorKind::Forbidden, code: "forbidden", message: message.into() }
    }

    /// A field is wrong.
    pub fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        ServiceError {
            kind: ErrorKind::Invalid { field: Some(field.into()) },
            code: "invalid",
            message: message.into(),
        }
    }

    /// The request is wrong.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        ServiceError { kind: ErrorKind::Invalid { field: None }, code, message: message.into() }
    }

    /// It cannot be done in the present state.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        ServiceError { kind: ErrorKind::Conflict, code, message: message.into() }
    }

    /// Too much in a short time.
    pub fn too_many(code: &'static str, retry_after: Duration, message: impl Into<String>) -> Self {
        ServiceError { kind: ErrorKind::TooMany { retry_after }, code, message: message.into() }
    }

    /// Over a quota.
    pub fn quota(quota: &'static str, limit: u64, used: u64) -> Self {
        ServiceError {
            kind: ErrorKind::Quota { quota, limit, used },
            code: "quota-exceeded",
            message: format!(
                "the quota {quota} is {limit}, and with this {used} would be used: delete something, or have it raised"
            ),
        }
    }

    /// Not now.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        ServiceError { kind: ErrorKind::Unavailable { retry_after: None }, code, message: message.into() }
    }

    /// Our fault: the cause goes to the log, and not to whoever asked.
    pub fn internal(error: &anyhow::Error) -> Self {
        tracing::error!("a request failed: {error:#}");
        let message = "the server failed to do this: its log has the reason under the id of the request".to_owned();
        ServiceError { kind: ErrorKind::Internal, code: "internal", message }
    }
}

impl From<anyhow::Error> for ServiceError {
    fn from(error: anyhow::Error) -> Self {
        // A failure that was already put into words for whoever asked keeps them.
        error.downcast::<ServiceError>().unwrap_or_else(|error| ServiceError::internal(&error))
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ServiceError {}
