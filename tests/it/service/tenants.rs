//! Tenants: made, changed, deleted with all they have, and made again under the same name as others.

use super::kit::{Server, lines};
use keyfold::service::model::{NewTenant, Quotas, StreamSettings};
use keyfold::service::{AuditQuery, ErrorKind};
use std::fs;

#[test]
fn a_deleted_tenant_takes_everything_along_and_its_name_means_another_one() {
    let server = Server::new();
    let tenant = server.counting("acme");
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 1)]);
    server.service.delete_tenant(&server.platform, "acme").unwrap();
    assert!(!server.service.is_valid(&tenant.admin));
    assert_eq!(server.service.rules(&tenant.reader).unwrap_err().kind, ErrorKind::Forbidden);
    let late = server.service.append(&tenant.operator, "events", &lines(b"{}")).unwrap_err();
    assert_eq!(late.kind, ErrorKind::Forbidden);
    let left = fs::read_dir(server.folder.path().join("tenants")).unwrap().count();
    assert_eq!(left, 0, "its folder is gone");
    let again = server.tenant("acme");
    assert_eq!(server.service.streams(&again.reader).unwrap().len(), 0);
    let audit = server.service.audit(&again.admin, AuditQuery::default()).unwrap();
    assert!(audit.iter().all(|line| !line.action.starts_with("stream")), "the lines of the other one are not its own");
    let server = server.again();
    assert_eq!(server.service.tenants(&server.platform).unwrap().len(), 1);
}

#[test]
fn quotas_are_shown_with_their_defaults_and_change_while_rules_run() {
    let server = Server::new();
    let tenant = server.tenant_with("acme", Quotas { streams: Some(1), ..Quotas::default() });
    let put = |name: &str| server.service.put_stream(&tenant.author, name, &StreamSettings::default());
    put("one").unwrap();
    let error = put("two").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Quota { quota: "streams", limit: 1, used: 2 });
    let quotas = Quotas { streams: Some(2), ..Quotas::default() };
    let shown = server.service.change_tenant(&server.platform, "acme", &quotas).unwrap();
    assert!(shown.quotas.rules.is_some() && shown.quotas.streams == Some(2));
    put("two").unwrap();
    let server = server.again();
    assert_eq!(server.service.tenant(&server.platform, "acme").unwrap().quotas.streams, Some(2));
}

#[test]
fn names_are_checked_and_a_name_is_given_once() {
    let server = Server::new();
    for name in ["", "A", "-a", "a b", "a/b", "..", &"a".repeat(64), "ä"] {
        let new = NewTenant { name: name.to_owned(), quotas: Quotas::default() };
        let error = server.service.create_tenant(&server.platform, &new).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Invalid { .. }), "{name}");
    }
    server.tenant(&"a".repeat(63));
    server.tenant("0.a_b-c");
    let new = NewTenant { name: "0.a_b-c".to_owned(), quotas: Quotas::default() };
    assert_eq!(server.service.create_tenant(&server.platform, &new).unwrap_err().code, "tenant-exists");
}

#[test]
fn a_stream_whose_log_could_not_be_opened_is_not_made() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    for pointer in ["", "id", "/a~2"] {
        for (field, settings) in [
            ("id", StreamSettings { id: Some(pointer.to_owned()), ..StreamSettings::default() }),
            ("key", StreamSettings { key: Some(pointer.to_owned()), ..StreamSettings::default() }),
        ] {
            let error = server.service.put_stream(&tenant.author, "events", &settings).unwrap_err();
            assert!(matches!(&error.kind, ErrorKind::Invalid { field: Some(named) } if named == field), "{error:?}");
            assert!(error.message.contains("JSON Pointer"), "{error:?}");
        }
    }
    assert!(server.service.streams(&tenant.reader).unwrap().is_empty());
}
