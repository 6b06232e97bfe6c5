//! Tokens: made, shown once, rotated, revoked.

use super::model::{NewToken, Rotate, Token, TokenSecret};
use super::{Answer, Caller, Service, not_yet};

impl Service {
    /// Makes a token: of the caller's tenant, or a platform token by the platform.
    pub fn create_token(&self, caller: &Caller, new: &NewToken) -> Answer<TokenSecret> {
        let _ = (caller, new);
        not_yet()
    }

    /// The tokens of the caller's tenant, or of the platform.
    pub fn tokens(&self, caller: &Caller) -> Answer<Vec<Token>> {
        let _ = caller;
        not_yet()
    }

    /// Gives a token a new secret.
    pub fn rotate_token(&self, caller: &Caller, name: &str, rotate: &Rotate) -> Answer<TokenSecret> {
        let _ = (caller, name, rotate);
        not_yet()
    }

    /// Ends a token, at once.
    pub fn revoke_token(&self, caller: &Caller, name: &str) -> Answer<()> {
        let _ = (caller, name);
        not_yet()
    }
}
