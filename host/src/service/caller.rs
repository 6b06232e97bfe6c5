//! [`Caller`]: who asks, known by a token. The tenant is the token's: nothing in a request can name another one.

use super::model::Role;
use crate::state::catalogue::{TenantId, TokenId};

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The token.
    pub token: TokenId,
    /// Its name, for the audit.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// Whose it is; None for a platform token.
    pub tenant: Option<TenantId>,
    /// The request, for the audit and the log. Empty until whoever takes requests has set it.
    pub request_id: String,
    /// The hash of the secret that it came with: after a rotation the token goes on, and the old secret does not.
    pub(super) secret: [u8; 32],
}

impl Caller {
    /// The same caller in another request.
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }
}
