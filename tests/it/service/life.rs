//! One rule's life, in process.

use super::kit::{Server, counting, lines, manifest, one};
use crate::support::process::wait_until;
use crate::support::rules::guest;
use keyfold::host::StateChoice;
use keyfold::service::model::{Activate, LetterFilter, Manifest, Rollback, RuleState, StreamSettings, VersionStatus};
use keyfold::service::{DeleteRule, ErrorKind, EventsBody};
use serde_json::json;

#[test]
fn a_rule_is_made_uploaded_activated_swapped_rolled_back_and_deleted() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    let service = &server.service;
    server.rule(&tenant);
    assert_eq!(service.rule(&tenant.reader, "count").unwrap().status.state, RuleState::New);
    server.send(&tenant, &["a", "b", "a"]);
    let first = server.run(&tenant, "count", &counting(0));
    server.counts(&tenant, &[("a", 2), ("b", 1)]);
    let second = server.upload(&tenant, "count", &counting(1));
    assert_eq!(
        second.trial.clone().map(|trial| (trial.groups, trial.failed)),
        Some((2, 0)),
        "it was tried with the last events"
    );
    assert_eq!(second.possible, [StateChoice::Keep, StateChoice::Fresh, StateChoice::Drain]);

    let keep = |digest: &str| Activate { version: digest.to_owned(), state: Some(StateChoice::Keep) };
    let record = service.activate(&tenant.operator, "count", &keep(&second.digest)).unwrap();
    assert_eq!(record.from.unwrap().digest, first.digest);
    assert!(record.batch.is_some());
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 3), ("b", 1)]);
    let state = service.state(&tenant.reader, "count", "a").unwrap();
    assert_eq!(state["value"], 3);

    let back = service.rollback(&tenant.operator, "count", &Rollback { state: Some(StateChoice::Keep) }).unwrap();
    assert_eq!((back.to.digest.as_str(), back.by.as_deref()), (first.digest.as_str(), Some("operator")));
    server.send(&tenant, &["b"]);
    server.counts(&tenant, &[("a", 3), ("b", 2)]);
    let ran: Vec<String> =
        service.activations(&tenant.reader, "count").unwrap().into_iter().map(|record| record.to.digest).collect();
    assert_eq!(ran, [first.digest.clone(), second.digest.clone(), first.digest.clone()]);
    assert!(!service.progress(&tenant.reader, "count").unwrap().is_empty());

    service.delete_rule(&tenant.author, "count", &DeleteRule::default()).unwrap();
    assert_eq!(service.rule(&tenant.reader, "count").unwrap_err().kind, ErrorKind::NotFound);
    let outputs = server.read(&tenant, "count.outputs");
    assert_eq!(outputs.len(), 4, "its outputs are the tenant's, and stay");
    let made_by: Vec<&str> = outputs.iter().map(|output| output["digest"].as_str().unwrap()).collect();
    assert_eq!(made_by, [&first.digest, &first.digest, &second.digest, &first.digest]);
    service.delete_stream(&tenant.author, "events").unwrap();
}

#[test]
fn a_rule_goes_on_where_it_was_after_a_restart_and_a_pause_holds_over_it() {
    let server = Server::new();
    let tenant = server.counting("acme");
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 1)]);
    server.service.pause(&tenant.operator, "count").unwrap();
    server.send(&tenant, &["a", "b"]);
    let server = server.again();
    let rule = server.service.rule(&tenant.reader, "count").unwrap();
    assert_eq!((rule.status.state, rule.status.lag), (RuleState::Paused, 2));
    server.service.resume(&tenant.operator, "count").unwrap();
    server.counts(&tenant, &[("a", 2), ("b", 1)]);
}

#[test]
fn an_event_is_decided_with_the_version_and_the_state_of_its_key() {
    let server = Server::new();
    let tenant = server.counting("acme");
    let decided = server.service.decide(&tenant.operator, "count", &one(br#"{"key":"u1"}"#)).unwrap();
    assert!(decided.decided, "{:?}", decided.reason);
    assert_eq!((decided.key.as_deref(), decided.outputs.len()), (Some("u1"), 1));
    assert_eq!(decided.outputs[0]["count"], 1);
    let again = server.service.decide(&tenant.operator, "count", &one(br#"{"key":"u1"}"#)).unwrap();
    assert_eq!(again.outputs[0]["count"], 2);
    let two = server.service.decide(&tenant.operator, "count", &lines(b"{\"key\":1}\n{\"key\":2}")).unwrap_err();
    assert!(matches!(two.kind, ErrorKind::Invalid { .. }), "{two}");
}

#[test]
fn without_an_answer_in_time_the_declared_default_is_given() {
    let server = Server::new();
    let tenant = server.counting("acme");
    let declared = Manifest {
        decide: serde_json::from_value(json!({ "default": { "allow": true } })).unwrap(),
        ..manifest("events")
    };
    server.service.put_rule(&tenant.author, "count", &declared).unwrap();
    server.service.pause(&tenant.operator, "count").unwrap();
    let decided = server.service.decide(&tenant.operator, "count", &one(br#"{"key":"u1"}"#)).unwrap();
    assert_eq!((decided.decided, decided.reason.as_deref()), (false, Some("paused")));
    assert_eq!(decided.answer, json!({ "allow": true }));
    server.service.resume(&tenant.operator, "count").unwrap();
    server.counts(&tenant, &[("u1", 1)]);
}

#[test]
fn a_failing_key_goes_to_the_dead_letters_and_runs_again_with_a_version_that_can() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.rule(&tenant);
    server.run(&tenant, "count", &guest("fail"));
    server.send(&tenant, &["good", "bad-1", "bad-1"]);
    server.counts(&tenant, &[("good", 1)]);
    let letters = |filter: &LetterFilter| server.service.dead_letters(&tenant.reader, "count", filter, 10).unwrap();
    wait_until("the letter is there", || !letters(&LetterFilter::default()).is_empty());
    let found = letters(&LetterFilter { key: Some("bad-1".to_owned()), ..LetterFilter::default() });
    assert_eq!((found.len(), found[0]["events"].as_array().unwrap().len()), (1, 2));

    let nothing = server.service.re_drive(&tenant.operator, "count", &LetterFilter::default()).unwrap_err();
    assert!(matches!(nothing.kind, ErrorKind::Invalid { .. }));
    let mended = server.upload(&tenant, "count", &counting(0));
    let activate = Activate { version: mended.digest, state: Some(StateChoice::Fresh) };
    server.service.activate(&tenant.operator, "count", &activate).unwrap();
    let all = LetterFilter { all: true, ..LetterFilter::default() };
    let taken = server.service.re_drive(&tenant.operator, "count", &all).unwrap();
    assert_eq!((taken.letters, taken.events), (1, 2));
    server.counts(&tenant, &[("good", 1), ("bad-1", 2)]);
    let again = server.service.re_drive(&tenant.operator, "count", &all).unwrap();
    assert_eq!(again.events, 0, "what ran again does not run a third time");
    server.service.purge_letters(&tenant.operator, "count", &all).unwrap();
    wait_until("the letters are deleted", || letters(&LetterFilter::default()).is_empty());
}

#[test]
fn what_is_refused_is_refused_with_its_reason_and_may_be_sent_again() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.rule(&tenant);
    let refused = server.upload(&tenant, "count", &guest("asks-for-network"));
    assert_eq!(refused.status, VersionStatus::Refused);
    assert!(refused.reason.as_deref().unwrap().contains("evil:net/dns"), "{:?}", refused.reason);
    let activate = Activate { version: refused.digest.clone(), state: None };
    let error = server.service.activate(&tenant.operator, "count", &activate).unwrap_err();
    assert_eq!(error.code, "version-refused");
    let again = server.service.upload_version(&tenant.author, "count", &guest("asks-for-network")).unwrap();
    assert!(!again.is_new);
    assert_eq!(server.checked(&tenant, "count", &refused.digest).status, VersionStatus::Refused);
    let same = server.upload(&tenant, "count", &counting(0));
    assert!(!server.service.upload_version(&tenant.author, "count", &counting(0)).unwrap().is_new);
    let by_its_beginning = server.service.version(&tenant.reader, "count", &same.digest[..20]).unwrap();
    assert_eq!(by_its_beginning.digest, same.digest);
}

#[test]
fn with_states_there_an_activation_says_what_becomes_of_them() {
    let server = Server::new();
    let tenant = server.counting("acme");
    let second = server.upload(&tenant, "count", &counting(1));
    let silent = Activate { version: second.digest, state: None };
    let error = server.service.activate(&tenant.operator, "count", &silent).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid { field: Some("state".to_owned()) });
}

#[test]
fn a_rule_that_is_drained_reads_what_was_there_and_goes() {
    let server = Server::new();
    let tenant = server.counting("acme");
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 1)]);
    server.service.pause(&tenant.operator, "count").unwrap();
    server.send(&tenant, &["b"]);
    let drain = DeleteRule { drain: Some("0s".to_owned()) };
    server.service.delete_rule(&tenant.author, "count", &drain).unwrap();
    assert_eq!(server.service.rule(&tenant.reader, "count").unwrap().status.state, RuleState::Draining);
    let error = server.service.resume(&tenant.operator, "count");
    drop(error);
    server.service.sweep();
    assert_eq!(server.service.rule(&tenant.reader, "count").unwrap_err().code, "rule-not-found");
    server.service.put_rule(&tenant.author, "count", &manifest("events")).unwrap();
    assert_eq!(server.service.versions(&tenant.reader, "count").unwrap().len(), 0, "the name means another rule now");
}

#[test]
fn a_request_that_comes_again_with_its_key_is_taken_once() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.service.put_stream(&tenant.author, "events", &StreamSettings::default()).unwrap();
    let body = EventsBody { idempotency_key: Some("k1"), ..lines(b"{\"key\":1}\n{\"key\":2}\n") };
    let first = server.service.append(&tenant.author, "events", &body).unwrap();
    let again = server.service.append(&tenant.author, "events", &body).unwrap();
    assert_eq!((first.placed.clone(), server.read(&tenant, "events").len()), (again.placed, 2));
    let other = EventsBody { body: b"{\"key\":3}", ..body };
    let error = server.service.append(&tenant.author, "events", &other).unwrap_err();
    assert_eq!((error.kind, error.code), (ErrorKind::Conflict, "idempotency-key-reused"));
}

#[test]
fn a_version_that_fails_with_every_key_of_the_last_events_and_their_states_is_refused() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.rule(&tenant);
    server.run(&tenant, "count", &guest("no-imports"));
    server.send(&tenant, &["a", "b"]);
    server.counts(&tenant, &[("a", 1), ("b", 1)]);
    // It says that it reads the same schema, and does not.
    let refused = server.upload(&tenant, "count", &guest("fail"));
    assert_eq!(refused.status, VersionStatus::Refused);
    let reason = refused.reason.unwrap();
    assert!(reason.contains("all of the last 2 keys") && reason.contains("does not decode"), "{reason}");
}
