//! Quotas, also when many requests come at the same time.

use super::kit::{Server, counting, lines, manifest};
use crate::support::process::wait_until;
use keyfold::clock::Clock;
use keyfold::event::Millis;
use keyfold::service::ErrorKind;
use keyfold::service::model::{Quotas, RuleState, StreamSettings};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[test]
fn requests_at_the_same_time_make_no_more_than_the_quota() {
    let server = Server::new();
    let tenant = server.tenant_with("acme", Quotas { streams: Some(5), rules: Some(3), ..Quotas::default() });
    let (made, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let put = |number: usize| {
        let name = format!("stream-{number}");
        match server.service.put_stream(&tenant.author, &name, &StreamSettings::default()) {
            Ok(_) => made.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                assert!(matches!(error.kind, ErrorKind::Quota { quota: "streams", .. }), "{error}");
                refused.fetch_add(1, Ordering::Relaxed)
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..20 {
            scope.spawn(move || put(number));
        }
    });
    assert_eq!((made.into_inner(), refused.into_inner()), (5, 15));
    assert_eq!(server.service.streams(&tenant.reader).unwrap().len(), 5);
}

#[test]
fn components_are_counted_once_however_many_rules_have_them() {
    let server = Server::new();
    let bytes = counting(0).len() as u64;
    let quotas = Quotas { component_bytes: Some(bytes * 2 - 1), ..Quotas::default() };
    let tenant = server.tenant_with("acme", quotas);
    server.rule(&tenant);
    server.service.put_rule(&tenant.author, "other", &manifest("events")).unwrap();
    server.upload(&tenant, "count", &counting(0));
    server.upload(&tenant, "other", &counting(0));
    let error = server.service.upload_version(&tenant.author, "count", &counting(1)).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Quota { quota: "component_bytes", .. }), "{error}");
    assert_eq!(server.service.tenant(&server.platform, "acme").unwrap().usage.component_bytes, bytes);
}

#[test]
fn too_many_events_or_requests_are_refused_with_the_time_to_come_again() {
    let server = Server::new();
    let quotas = Quotas { events_per_second: Some(10), requests_per_second: Some(2), ..Quotas::default() };
    let tenant = server.tenant_with("acme", quotas);
    server.service.put_stream(&tenant.author, "events", &StreamSettings::default()).unwrap();
    let many = "{}\n".repeat(1_000);
    server.service.append(&tenant.operator, "events", &lines(many.as_bytes())).unwrap();
    let error = server.service.append(&tenant.operator, "events", &lines(b"{}")).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::TooMany { retry_after } if retry_after.as_secs() > 30), "{error:?}");
    assert_eq!(server.read(&tenant, "events").len(), 1_000, "nothing of it was taken");
    let admitted = (0..50).filter(|_| server.service.admit(&tenant.reader).is_ok()).count();
    assert!((2..10).contains(&admitted), "{admitted}");
    let other = server.tenant("other");
    server.service.admit(&other.reader).unwrap();
}

#[test]
fn a_tenant_whose_states_are_over_the_quota_is_held_and_goes_on_when_they_are_not() {
    let server = Server::new();
    let tenant = server.counting("acme");
    server.send(&tenant, &["a", "b", "c"]);
    server.counts(&tenant, &[("a", 1), ("b", 1), ("c", 1)]);
    let set = |keys: u64| {
        let quotas = Quotas { state_keys: Some(keys), ..Quotas::default() };
        server.service.change_tenant(&server.platform, "acme", &quotas).unwrap();
        server.service.sweep();
    };
    let state = || server.service.rule(&tenant.reader, "count").unwrap().status;
    wait_until("its keys are known", || state().keys == 3);
    set(2);
    assert_eq!(state().state, RuleState::Held);
    assert!(state().reason.unwrap().contains("state_keys"));
    set(100);
    assert_eq!(state().state, RuleState::Running);
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 2), ("b", 1), ("c", 1)]);
}

#[test]
fn events_past_their_retention_stay_while_a_rule_needs_them_and_that_is_said() {
    let clock = Clock::manual(Millis(1_000_000));
    let server = Server::with_clock(clock.clone());
    let tenant = server.counting("acme");
    let settings = StreamSettings { retention_age: Some("1m".to_owned()), ..StreamSettings::default() };
    server.service.put_stream(&tenant.author, "events", &settings).unwrap();
    server.service.pause(&tenant.operator, "count").unwrap();
    // Only whole files are deleted, and never the one that is written.
    server.send(&tenant, &["a"]);
    server.send(&tenant, &["a"]);
    clock.advance_to(Millis(1_000_000 + 120_000));
    server.service.sweep();
    let stream = server.service.stream(&tenant.reader, "events").unwrap();
    assert_eq!((stream.partitions[0].first, stream.readers[0].lag), (0, 2));
    assert!(stream.readers[0].holds_retention, "{stream:?}");
}
