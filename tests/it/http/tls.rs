//! TLS: what listens for others is encrypted, and certificates are exchanged while the server runs.

use super::ask::Ask;
use super::served::Served;
use crate::support::command;
use crate::support::process::wait_until;
use rcgen::{CertificateParams, KeyPair};
use reqwest::Certificate;
use reqwest::blocking::Client;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Writes a certificate for this machine and its key. Returns the certificate.
fn certificate(folder: &Path) -> String {
    let key = KeyPair::generate().expect("a key can be made");
    let params =
        CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("the names are right");
    let certificate = params.self_signed(&key).expect("it can be signed").pem();
    fs::write(folder.join("key.pem"), key.serialize_pem()).expect("the disk has room");
    fs::write(folder.join("certificate.pem"), &certificate).expect("the disk has room");
    certificate
}

/// A client that trusts nothing but this.
fn trusting(certificate: &str) -> Client {
    let certificate = Certificate::from_pem(certificate.as_bytes()).expect("it is a certificate");
    Client::builder().tls_certs_only([certificate]).timeout(Duration::from_secs(10)).build().expect("it can be made")
}

fn configuration(folder: &Path) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    format!("[tls]\ncertificate = '{}'\nkey = '{}'\n", path("certificate.pem"), path("key.pem"))
}

#[test]
fn a_server_with_a_certificate_speaks_tls_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let own = certificate(folder.path());
    let served = Served::configured(&configuration(folder.path()));
    assert!(served.url.starts_with("https://127.0.0.1:"), "{}", served.url);
    let ask = Ask { client: trusting(&own), ..served.platform.clone() };
    assert_eq!(ask.get("/v1/whoami").ok()["role"], "platform");
    let stranger = tempfile::tempdir().expect("a folder can be made");
    let others = trusting(&certificate(stranger.path()));
    assert!(others.get(format!("{}/healthz", served.url)).send().is_err(), "a client that does not know it turns away");
    let plain = served.url.replace("https", "http");
    assert!(others.get(format!("{plain}/healthz")).send().is_err(), "nothing is answered in plain text");
}

#[test]
fn a_new_certificate_is_used_after_a_hang_up_signal_and_a_wrong_one_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let before = certificate(folder.path());
    let served = Served::configured(&configuration(folder.path()));
    let answers = |pem: &str| trusting(pem).get(format!("{}/healthz", served.url)).send().is_ok();
    assert!(answers(&before));
    let after = certificate(folder.path());
    served.process().signal("-HUP");
    wait_until("the new certificate is used", || answers(&after));
    assert!(!answers(&before));
    fs::write(folder.path().join("certificate.pem"), "no certificate").expect("the disk has room");
    served.process().signal("-HUP");
    wait_until("it has said so", || served.process().has_said("stay as they were"));
    assert!(answers(&after));
}

#[test]
fn an_address_that_others_can_reach_is_refused_without_tls() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let data = folder.path().join("server").display().to_string();
    let refused = command::run(["serve", "--data", &data, "--listen", "0.0.0.0:0"]);
    refused.fails_with(&["unencrypted", "--insecure-http"]);
    assert!(!folder.path().join("server").exists(), "nothing was made");
}
