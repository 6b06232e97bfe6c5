//! What a crash leaves: the data folder is copied at every fault point that a use case meets, as a crash there would leave it, and each
//! copy is opened. The use case has happened or it has not, nothing lies about, the audit holds, and it can be done again.

use super::kit::{Server, Tenant, counting, manifest, open};
use crate::support::folder;
use crate::support::process::wait_until;
use keyfold::clock::Clock;
use keyfold::fault::{self, SERVICE_POINTS};
use keyfold::host::StateChoice;
use keyfold::service::model::{Activate, NewTenant, NewToken, Quotas, Role, StreamSettings, VersionStatus};
use keyfold::service::{Caller, DeleteRule, Service};
use keyfold::state::catalogue::verify_audit;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use tempfile::TempDir;

/// A folder as a crash at a point would have left it.
struct Left {
    point: &'static str,
    folder: TempDir,
}

/// Does something, and copies the data folder at each point of the service that it meets.
fn crashes<T>(server: &Server, work: impl FnOnce() -> T) -> (T, Vec<Left>) {
    let left: Rc<RefCell<Vec<Left>>> = Rc::default();
    let (data, kept) = (server.folder.path().to_owned(), Rc::clone(&left));
    let copy = move |point: &'static str| {
        if SERVICE_POINTS.contains(&point) {
            let folder = folder::fast();
            folder::copy(&data, folder.path());
            keep_private(folder.path());
            kept.borrow_mut().push(Left { point, folder });
        }
    };
    let done = fault::watch(copy, work);
    (done, left.take())
}

/// A copy has folders that others may read; a crash leaves those of compiled code to the server alone.
fn keep_private(data: &Path) {
    for tenant in fs::read_dir(data.join("tenants")).into_iter().flatten() {
        let cache = tenant.unwrap().path().join("cache");
        if cache.exists() {
            fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
        }
    }
}

/// A caller of the same token in another process.
fn again(service: &Service, secret: &str) -> Caller {
    service.authenticate(secret).expect("the token is kept")
}

/// The paths below a folder that belong to tenants, streams and rules.
fn folders(data: &Path) -> BTreeSet<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let tenants = below(&data.join("tenants"));
    let parts = tenants.iter().flat_map(|tenant| {
        ["streams", "rules", "components"].into_iter().flat_map(|part| below(&tenant.join(part))).collect::<Vec<_>>()
    });
    parts.chain(tenants.clone()).collect()
}

/// Opens what a crash left, checks what always holds, and gives it to the test.
fn recovered(left: &Left, secret: &str, check: impl FnOnce(&Arc<Service>, &Caller)) {
    let found = verify_audit(left.folder.path()).unwrap();
    assert_eq!(found.fault, None, "at {}", left.point);
    let service = open(left.folder.path(), Clock::System);
    check(&service, &again(&service, secret));
    service.stop();
    drop(service);
    assert_eq!(verify_audit(left.folder.path()).unwrap().fault, None, "after {}", left.point);
}

/// A token of an admin of a tenant, whose secret is known.
fn admin(server: &Server, tenant: &Tenant) -> String {
    let new = NewToken { name: "known".to_owned(), role: Role::Admin, expires_in: None };
    server.service.create_token(&tenant.admin, &new).unwrap().secret
}

#[test]
fn a_tenant_is_there_or_not() {
    let server = Server::new();
    let new = NewTenant { name: "acme".to_owned(), quotas: Quotas::default() };
    let (made, left) = crashes(&server, || server.service.create_tenant(&server.platform, &new));
    made.unwrap();
    assert_eq!(
        left.iter().map(|left| left.point).collect::<Vec<_>>(),
        ["service-folder-made", "audit-head-written", "catalogue-committed"]
    );
    for left in &left {
        recovered(left, &server.secret, |service, platform| {
            let is_there = service.tenant(platform, "acme").is_ok();
            assert_eq!(is_there, left.point == "catalogue-committed", "{}", left.point);
            assert_eq!(folders(left.folder.path()).len(), usize::from(is_there), "{}", left.point);
            assert_eq!(service.create_tenant(platform, &new).is_ok(), !is_there);
        });
    }
}

#[test]
fn a_stream_is_there_or_not_when_it_is_made_and_when_it_is_deleted() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    let secret = admin(&server, &tenant);
    let put = || server.service.put_stream(&tenant.admin, "events", &StreamSettings::default());
    let (made, left) = crashes(&server, put);
    made.unwrap();
    assert!(left.len() >= 3);
    for left in &left {
        recovered(left, &secret, |service, admin| {
            let is_there = service.stream(admin, "events").is_ok();
            assert_eq!(folders(left.folder.path()).len(), 1 + usize::from(is_there), "{}", left.point);
            service.put_stream(admin, "events", &StreamSettings::default()).unwrap();
        });
    }
    server.send(&tenant, &["a"]);
    let (gone, left) = crashes(&server, || server.service.delete_stream(&tenant.admin, "events"));
    gone.unwrap();
    let points: BTreeSet<&str> = left.iter().map(|left| left.point).collect();
    assert!(points.contains("service-deleted") && points.contains("service-removed"), "{points:?}");
    for left in &left {
        recovered(left, &secret, |service, admin| {
            let is_there = service.stream(admin, "events").is_ok();
            assert_eq!(folders(left.folder.path()).len(), 1 + usize::from(is_there), "{}", left.point);
            let made = service.put_stream(admin, "events", &StreamSettings::default()).unwrap();
            assert_eq!(made.value.partitions[0].next, u64::from(is_there), "{}: it is another stream", left.point);
        });
    }
}

#[test]
fn a_rule_is_there_or_not_with_the_stream_of_its_outputs_or_without() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    let secret = admin(&server, &tenant);
    server.service.put_stream(&tenant.admin, "events", &StreamSettings::default()).unwrap();
    let put = || server.service.put_rule(&tenant.admin, "count", &manifest("events"));
    let (made, left) = crashes(&server, put);
    made.unwrap();
    assert!(left.len() >= 6, "the stream of its outputs, then the rule");
    for left in &left {
        recovered(left, &secret, |service, admin| {
            let (rules, streams) = (service.rules(admin).unwrap().len(), service.streams(admin).unwrap().len());
            assert!(streams > rules, "{}: a rule has its streams", left.point);
            assert_eq!(folders(left.folder.path()).len(), 1 + rules + streams, "{}", left.point);
            assert_eq!(service.put_rule(admin, "count", &manifest("events")).unwrap().is_new, rules == 0);
        });
    }
}

#[test]
fn an_upload_is_checked_or_forgotten() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    let secret = admin(&server, &tenant);
    server.rule(&tenant);
    let bytes = counting(0);
    let (made, left) = crashes(&server, || server.service.upload_version(&tenant.admin, "count", &bytes));
    let digest = made.unwrap().value.digest;
    server.checked(&tenant, "count", &digest);
    let points: Vec<&str> = left.iter().map(|left| left.point).collect();
    assert_eq!(points, ["version-written", "version-placed", "audit-head-written", "catalogue-committed"]);
    for left in &left {
        recovered(left, &secret, |service, admin| {
            let is_there = service.version(admin, "count", &digest).is_ok();
            assert_eq!(is_there, left.point == "catalogue-committed");
            let files = folders(left.folder.path()).into_iter().filter(|path| path.is_file()).count();
            assert_eq!(files, usize::from(is_there), "{}", left.point);
            service.upload_version(admin, "count", &bytes).unwrap();
            let is_ready = || service.version(admin, "count", &digest).unwrap().status == VersionStatus::Ready;
            wait_until("it is checked", is_ready);
        });
    }
}

#[test]
fn an_activation_takes_effect_once_wherever_the_crash_came() {
    for state in [StateChoice::Keep, StateChoice::Fresh, StateChoice::Drain] {
        let server = Server::new();
        let tenant = server.counting("acme");
        let secret = admin(&server, &tenant);
        server.send(&tenant, &["a", "a"]);
        server.counts(&tenant, &[("a", 2)]);
        let second = server.upload(&tenant, "count", &counting(1)).digest;
        let activate = Activate { version: second.clone(), state: Some(state) };
        let (done, left) = crashes(&server, || server.service.activate(&tenant.admin, "count", &activate));
        done.unwrap();
        let points: BTreeSet<&str> = left.iter().map(|left| left.point).collect();
        assert!(points.contains("activation-wanted") && points.contains("activation-taken"), "{points:?}");
        for (number, left) in left.iter().enumerate() {
            recovered(left, &secret, |service, admin| {
                let active = || service.rule(admin, "count").unwrap().active.unwrap().digest;
                let ran = service.activations(admin, "count").unwrap();
                // The first line of the audit and the row come together.
                let is_wanted = ran.len() == 2;
                assert_eq!(is_wanted, number > 0, "{}", left.point);
                if is_wanted {
                    wait_until("it takes effect", || active() == second);
                    let ran = service.activations(admin, "count").unwrap();
                    assert!(ran[0].batch.is_some(), "{}: {ran:?}", left.point);
                } else {
                    assert_ne!(active(), second);
                }
                let kept = service.decide(admin, "count", &super::kit::one(br#"{"key":"a"}"#)).unwrap();
                let count = kept.outputs[0]["count"].as_u64().unwrap();
                let expected = if is_wanted && state == StateChoice::Fresh { 1 } else { 3 };
                assert_eq!(count, expected, "{state:?} at {} ({number})", left.point);
            });
        }
    }
}

#[test]
fn a_rule_that_is_deleted_is_there_or_gone_with_all_it_had() {
    let server = Server::new();
    let tenant = server.counting("acme");
    let secret = admin(&server, &tenant);
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 1)]);
    let delete = || server.service.delete_rule(&tenant.admin, "count", &DeleteRule::default());
    let (gone, left) = crashes(&server, delete);
    gone.unwrap();
    assert!(left.len() >= 4);
    for left in &left {
        recovered(left, &secret, |service, admin| {
            let is_there = service.rule(admin, "count").is_ok();
            // The tenant and its two streams; the rule and its component.
            assert_eq!(folders(left.folder.path()).len(), 3 + 2 * usize::from(is_there), "{}", left.point);
            if is_there {
                service.append(admin, "events", &super::kit::lines(b"{\"key\":\"a\"}")).unwrap();
                let state = || service.state(admin, "count", "a").unwrap()["value"] == 2;
                wait_until("it goes on", state);
            } else {
                assert!(service.put_rule(admin, "count", &manifest("events")).unwrap().is_new);
            }
        });
    }
}

#[test]
fn a_tenant_that_is_deleted_is_there_or_gone_with_all_it_had() {
    let server = Server::new();
    let tenant = server.counting("acme");
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 1)]);
    let (gone, left) = crashes(&server, || server.service.delete_tenant(&server.platform, "acme"));
    gone.unwrap();
    for left in &left {
        recovered(left, &server.secret, |service, platform| {
            let is_there = service.tenant(platform, "acme").is_ok();
            assert_eq!(folders(left.folder.path()).is_empty(), !is_there, "{}", left.point);
        });
    }
}

#[test]
fn a_rule_that_drains_goes_on_draining_and_a_pause_holds() {
    let server = Server::new();
    let tenant = server.counting("acme");
    let secret = admin(&server, &tenant);
    let drain = DeleteRule { drain: Some("1h".to_owned()) };
    server.send(&tenant, &["a"]);
    server.counts(&tenant, &[("a", 1)]);
    let (done, left) = crashes(&server, || server.service.delete_rule(&tenant.admin, "count", &drain));
    done.unwrap();
    for left in &left {
        recovered(left, &secret, |service, admin| {
            let is_draining = left.point == "catalogue-committed";
            let state = service.rule(admin, "count").unwrap().status.state;
            assert_eq!(state == keyfold::service::model::RuleState::Draining, is_draining, "{}", left.point);
        });
    }
    let other = server.counting("other");
    let secret = admin(&server, &other);
    let (paused, left) = crashes(&server, || server.service.pause(&other.admin, "count"));
    paused.unwrap();
    for left in &left {
        recovered(left, &secret, |service, admin| {
            let state = service.rule(admin, "count").unwrap().status.state;
            let is_paused = state == keyfold::service::model::RuleState::Paused;
            assert_eq!(is_paused, left.point == "catalogue-committed", "{}", left.point);
        });
    }
}

#[test]
fn tokens_are_made_and_ended_whole() {
    let server = Server::new();
    let tenant = server.tenant("acme");
    let secret = admin(&server, &tenant);
    let (gone, left) = crashes(&server, || server.service.revoke_token(&tenant.admin, "reader"));
    gone.unwrap();
    for left in &left {
        recovered(left, &secret, |service, admin| {
            let names: Vec<String> = service.tokens(admin).unwrap().into_iter().map(|token| token.name).collect();
            let is_there = names.contains(&"reader".to_owned());
            assert_eq!(is_there, left.point == "audit-head-written", "{}", left.point);
        });
    }
}
