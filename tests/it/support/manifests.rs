//! What is claimed of manifests, for bytes that the fuzzer or a test has made up.

use keyfold::service::model::{Manifest, Quotas};
use keyfold::service::{ErrorKind, Service};

/// Whatever the bytes are: no panic, a refusal is the client's fault, and what is accepted means the same when it is written down.
pub fn check(bytes: &[u8]) {
    match Service::check_manifest("rule", bytes, &Quotas::default()) {
        Ok(manifest) => {
            let written = serde_json::to_vec(&manifest).expect("what was read can be written");
            let again: Manifest = serde_json::from_slice(&written).expect("what was written can be read");
            assert_eq!(again, manifest);
            assert!(Service::check_manifest("rule", &written, &Quotas::default()).is_ok_and(|read| read == manifest));
        }
        Err(error) => {
            let is_fault_of_client = matches!(
                error.kind,
                ErrorKind::Invalid { .. } | ErrorKind::Quota { .. } | ErrorKind::TooLarge | ErrorKind::Forbidden
            );
            assert!(is_fault_of_client, "{error}");
            assert!(!error.message.is_empty() && error.message.len() < 100_000, "{error}");
        }
    }
}
