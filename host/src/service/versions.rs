//! Versions of a rule: uploaded, checked in the background, activated, rolled back.

use super::model::{Activate, ActivationRecord, Rollback, Version};
use super::{Answer, Caller, Put, Service, not_yet};

impl Service {
    /// Takes the bytes of a component. Its checks run in the background. The same bytes are the same version.
    pub fn upload_version(&self, caller: &Caller, rule: &str, bytes: &[u8]) -> Answer<Put<Version>> {
        let _ = (caller, rule, bytes);
        not_yet()
    }

    /// The versions of a rule, newest first.
    pub fn versions(&self, caller: &Caller, rule: &str) -> Answer<Vec<Version>> {
        let _ = (caller, rule);
        not_yet()
    }

    /// A version by its digest, the beginning of it, or what the component calls it when that is unique.
    pub fn version(&self, caller: &Caller, rule: &str, version: &str) -> Answer<Version> {
        let _ = (caller, rule, version);
        not_yet()
    }

    /// Lets another version run. Returns when it does.
    pub fn activate(&self, caller: &Caller, rule: &str, activate: &Activate) -> Answer<ActivationRecord> {
        let _ = (caller, rule, activate);
        not_yet()
    }

    /// Lets the version before run again.
    pub fn rollback(&self, caller: &Caller, rule: &str, rollback: &Rollback) -> Answer<ActivationRecord> {
        let _ = (caller, rule, rollback);
        not_yet()
    }

    /// What ran when, newest first.
    pub fn activations(&self, caller: &Caller, rule: &str) -> Answer<Vec<ActivationRecord>> {
        let _ = (caller, rule);
        not_yet()
    }
}
