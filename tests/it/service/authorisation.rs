//! Every operation with every role, and with the names of another tenant's things.

use super::kit::{Server, counting, lines, manifest, one};
use keyfold::host::StateChoice;
use keyfold::service::model::{
    Activate, LetterFilter, NewTenant, NewToken, Quotas, Role, Rollback, Rotate, StreamSettings,
};
use keyfold::service::{AuditQuery, Caller, DeleteRule, ErrorKind, EventsQuery, Operation, Service, ServiceError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Asks for an operation, about the rule, stream, token or tenant of this name.
fn ask(service: &Service, operation: Operation, by: &Caller, name: &str) -> Result<(), ServiceError> {
    let token = |role| NewToken { name: "new-token".to_owned(), role, expires_in: None };
    let wake = || -> keyfold::service::Wake { Arc::new(|| {}) };
    let activate = Activate { version: "0123456".to_owned(), state: Some(StateChoice::Keep) };
    let filter = LetterFilter { all: true, ..LetterFilter::default() };
    match operation.name {
        "whoami" => service.whoami(by).map(drop),
        "metrics" => service.metrics(by).map(drop),
        "audit.read" => service.audit(by, AuditQuery::default()).map(drop),
        "tenant.create" => {
            let new = NewTenant { name: "new-tenant".to_owned(), quotas: Quotas::default() };
            service.create_tenant(by, &new).map(drop)
        }
        "tenant.list" => service.tenants(by).map(drop),
        "tenant.read" => service.tenant(by, name).map(drop),
        "tenant.change" => service.change_tenant(by, name, &Quotas::default()).map(drop),
        "tenant.delete" => service.delete_tenant(by, name),
        "tenant.token.create" => service.create_tenant_token(by, name, &token(Role::Reader)).map(drop),
        "token.create" => {
            let role = if by.role == Role::Platform { Role::Platform } else { Role::Reader };
            service.create_token(by, &token(role)).map(drop)
        }
        "token.list" => service.tokens(by).map(drop),
        "token.rotate" => service.rotate_token(by, name, &Rotate::default()).map(drop),
        "token.revoke" => service.revoke_token(by, name),
        "stream.put" => service.put_stream(by, "new-stream", &StreamSettings::default()).map(drop),
        "stream.list" => service.streams(by).map(drop),
        "stream.read" => service.stream(by, name).map(drop),
        "stream.delete" => service.delete_stream(by, name),
        "events.append" => service.append(by, name, &lines(b"{}")).map(drop),
        "events.read" => {
            service.read_events(by, name, &EventsQuery::default())?;
            service.tail_stream(by, name, wake()).map(drop)
        }
        "rule.put" => service.put_rule(by, "new-rule", &manifest(name)).map(drop),
        "rule.list" => service.rules(by).map(drop),
        "rule.read" => service.rule(by, name).map(drop),
        "rule.delete" => service.delete_rule(by, name, &DeleteRule::default()),
        "version.upload" => service.upload_version(by, name, &counting(9)).map(drop),
        "version.list" => service.versions(by, name).map(drop),
        "version.read" => service.version(by, name, "0123456").map(drop),
        "rule.activate" => service.activate(by, name, &activate).map(drop),
        "rule.rollback" => service.rollback(by, name, &Rollback { state: Some(StateChoice::Keep) }).map(drop),
        "rule.pause" => service.pause(by, name).map(drop),
        "rule.resume" => service.resume(by, name).map(drop),
        "activation.list" => service.activations(by, name).map(drop),
        "rule.progress" => service.progress(by, name).map(drop),
        "rule.log" => service.tail_log(by, name, wake()).map(drop),
        "rule.outputs" => service.tail_outputs(by, name, wake()).map(drop),
        "rule.decide" => service.decide(by, name, &one(b"{}")).map(drop),
        "dead-letters.read" => service.dead_letters(by, name, &filter, 1).map(drop),
        "dead-letters.purge" => service.purge_letters(by, name, &filter).map(drop),
        "dead-letters.re-drive" => service.re_drive(by, name, &filter).map(drop),
        "state.read" => service.state(by, name, "a").map(drop),
        other => panic!("{other} is not in the table of this test"),
    }
}

#[test]
fn every_role_may_do_what_the_table_says_and_nothing_else_and_what_is_refused_is_in_the_audit() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    server.rule(&tenant);
    let callers = [&server.platform, &tenant.admin, &tenant.author, &tenant.operator, &tenant.reader];
    let mut refused = 0;
    for operation in Operation::ALL {
        for by in callers {
            // Nothing has this name, so that what is allowed changes nothing that others need.
            let asked = ask(&server.service, *operation, by, "nothing-here");
            let is_refused = asked.as_ref().is_err_and(|error| error.kind == ErrorKind::Forbidden);
            assert_eq!(!is_refused, operation.allows(by.role), "{} by {:?}: {asked:?}", operation.name, by.role);
            refused += usize::from(is_refused);
        }
    }
    let lines =
        server.service.audit(&server.platform, AuditQuery { limit: Some(10_000), ..AuditQuery::default() }).unwrap();
    let noted: BTreeSet<(String, String)> = lines
        .into_iter()
        .filter(|line| line.outcome == "forbidden")
        .map(|line| (line.action, line.role.unwrap()))
        .collect();
    assert!(refused > 60 && noted.len() > 40, "{refused} refused, {} noted", noted.len());
    assert!(noted.contains(&("rule.activate".to_owned(), "author".to_owned())));
    assert!(noted.contains(&("events.append".to_owned(), "reader".to_owned())));
}

#[test]
fn what_is_another_tenant_s_is_answered_as_what_is_nowhere() {
    let server = Server::new();
    let (mine, theirs) = (server.tenant("mine"), server.tenant("theirs"));
    server.rule(&mine);
    server.service.put_stream(&theirs.author, "secret", &StreamSettings::default()).unwrap();
    server.service.put_rule(&theirs.author, "secret", &manifest("secret")).unwrap();
    let new = NewToken { name: "secret".to_owned(), role: Role::Reader, expires_in: None };
    server.service.create_token(&theirs.admin, &new).unwrap();
    let mut compared = 0;
    // What these make has a name of its own.
    let makes_something = |operation: &&Operation| !["token.create", "stream.put"].contains(&operation.name);
    for operation in Operation::ALL.iter().filter(makes_something) {
        for by in [&mine.admin, &mine.author, &mine.operator, &mine.reader] {
            let of = |name: &str| {
                let error = ask(&server.service, *operation, by, name).err();
                error.map(|error| (error.code, error.message.replace(name, "NAME")))
            };
            let (there, nowhere) = (of("secret"), of("nowhere"));
            assert_eq!(there, nowhere, "{} by {:?}", operation.name, by.role);
            compared += usize::from(nowhere.is_some());
        }
    }
    assert!(compared > 60, "{compared}");
    let tenants = [server.service.tenant(&mine.admin, "theirs"), server.service.tenant(&mine.admin, "nowhere")];
    let [there, nowhere] = tenants.map(|answer| answer.unwrap_err());
    assert_eq!(there, nowhere);
    let seen = server.service.metrics(&mine.admin).unwrap();
    assert_eq!(seen.tenants.iter().map(|tenant| tenant.tenant.as_str()).collect::<Vec<_>>(), ["mine"]);
    let audit = server.service.audit(&mine.admin, AuditQuery::default()).unwrap();
    assert!(audit.iter().all(|line| line.tenant.as_deref() == Some("mine")), "{audit:?}");
}
