//! Tokens: shown once, kept as hashes, ended at once.

use super::kit::{Server, open};
use crate::support::folder::files;
use keyfold::clock::Clock;
use keyfold::event::Millis;
use keyfold::service::model::{NewToken, Role, Rotate, StreamSettings};
use keyfold::service::{ErrorKind, ServiceError};
use std::path::Path;
use std::sync::Arc;

fn new(name: &str, expires_in: Option<&str>) -> NewToken {
    NewToken { name: name.to_owned(), role: Role::Reader, expires_in: expires_in.map(str::to_owned) }
}

#[test]
fn a_revoked_token_is_refused_at_once_and_what_it_follows_ends() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.service.put_stream(&tenant.author, "events", &StreamSettings::default()).unwrap();
    let made = server.service.create_token(&tenant.admin, &new("watcher", None)).unwrap();
    let watcher = server.service.authenticate(&made.secret).unwrap();
    let mut tail = server.service.tail_stream(&watcher, "events", Arc::new(|| {})).unwrap();
    assert_eq!(tail.read(10).unwrap().len(), 0);
    server.service.revoke_token(&tenant.admin, "watcher").unwrap();
    assert!(server.service.authenticate(&made.secret).is_none());
    assert!(!server.service.is_valid(&watcher));
    let is_refused = |error: ServiceError| error.kind == ErrorKind::Forbidden;
    assert!(is_refused(tail.read(10).unwrap_err()));
    assert!(is_refused(server.service.streams(&watcher).unwrap_err()));
    let gone = server.service.revoke_token(&tenant.admin, "watcher").unwrap_err();
    assert_eq!(gone.code, "token-not-found");
    let anew = server.service.create_token(&tenant.admin, &new("watcher", None)).unwrap();
    assert!(server.service.authenticate(&anew.secret).is_some());
    assert!(!server.service.is_valid(&watcher), "a token of the same name is another one");
}

#[test]
fn a_rotated_token_has_a_new_secret_and_the_old_one_holds_as_long_as_it_was_told_to() {
    let clock = Clock::manual(Millis(1_000_000));
    let server = Server::with_clock(clock.clone());
    let tenant = server.tenant("acme");
    let first = server.service.create_token(&tenant.admin, &new("reader-2", None)).unwrap();
    let rotate = Rotate { grace: Some("5m".to_owned()) };
    let second = server.service.rotate_token(&tenant.admin, "reader-2", &rotate).unwrap();
    let holds = |secret: &str| server.service.authenticate(secret).is_some();
    assert!(holds(&first.secret) && holds(&second.secret) && first.secret != second.secret);
    clock.advance_to(Millis(1_000_000 + 300_000));
    assert!(!holds(&first.secret) && holds(&second.secret));
    let third = server.service.rotate_token(&tenant.admin, "reader-2", &Rotate::default()).unwrap();
    assert!(!holds(&second.secret) && holds(&third.secret));
}

#[test]
fn an_expired_token_is_refused_also_while_its_old_secret_has_grace() {
    let clock = Clock::manual(Millis(1_000_000));
    let server = Server::with_clock(clock.clone());
    let tenant = server.tenant("acme");
    let made = server.service.create_token(&tenant.admin, &new("short", Some("1h"))).unwrap();
    let rotated =
        server.service.rotate_token(&tenant.admin, "short", &Rotate { grace: Some("1d".to_owned()) }).unwrap();
    clock.advance_to(Millis(1_000_000 + 3_599_999));
    assert!(server.service.authenticate(&made.secret).is_some());
    clock.advance_to(Millis(1_000_000 + 3_600_000));
    assert!(server.service.authenticate(&made.secret).is_none());
    assert!(server.service.authenticate(&rotated.secret).is_none());
}

#[test]
fn secrets_are_nowhere_on_the_disk_and_tokens_hold_after_a_restart() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    let made = server.service.create_token(&tenant.admin, &new("kept", None)).unwrap();
    let gone = server.service.create_token(&tenant.admin, &new("gone", None)).unwrap();
    server.service.revoke_token(&tenant.admin, "gone").unwrap();
    let server = server.again();
    assert!(server.service.take_first_secret().is_none(), "it was given out");
    assert!(server.service.authenticate(&made.secret).is_some_and(|caller| caller.name == "kept"));
    assert!(server.service.authenticate(&gone.secret).is_none());
    server.service.stop();
    let digits = &made.secret.as_bytes()[3..];
    let holds =
        |folder: &Path| files(folder).values().any(|bytes| bytes.windows(digits.len()).any(|part| part == digits));
    assert!(!holds(server.folder.path()));
}

#[test]
fn the_first_token_is_made_anew_until_somebody_has_taken_it() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), Clock::System));
    let service = open(folder.path(), Clock::System);
    let secret = service.take_first_secret().expect("nobody has taken the one before");
    assert!(service.authenticate(&secret).is_some());
    assert!(service.take_first_secret().is_none());
}

#[test]
fn what_is_no_secret_is_nobody() {
    let server = Server::new();
    for secret in ["", "kf_", "kf_0", &"x".repeat(10_000), &server.secret[..server.secret.len() - 1]] {
        assert!(server.service.authenticate(secret).is_none());
    }
}

#[test]
fn a_tenant_makes_no_platform_token_and_the_platform_no_tenant_s() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    let platform = NewToken { role: Role::Platform, ..new("p", None) };
    for error in [
        server.service.create_token(&tenant.admin, &platform).unwrap_err(),
        server.service.create_token(&server.platform, &new("r", None)).unwrap_err(),
        server.service.create_tenant_token(&server.platform, "acme", &platform).unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Invalid { field: Some("role".to_owned()) });
    }
    let second = server.service.create_token(&server.platform, &platform).unwrap();
    assert!(server.service.authenticate(&second.secret).is_some_and(|caller| caller.role == Role::Platform));
}
