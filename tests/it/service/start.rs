//! The start of a server with many rules, and of one whose folder is in use.

use super::kit::{Server, counting, manifest, open};
use crate::support::process::wait_until;
use keyfold::clock::{Clock, Stopwatch};
use keyfold::host::StateChoice;
use keyfold::service::model::{Activate, Quotas, RuleState, StreamSettings};
use keyfold::service::{Service, ServiceSettings};
use std::fs;

/// So many tenants with so many rules each.
const TENANTS: usize = 10;
const RULES: usize = 20;

#[test]
fn many_rules_are_known_at_the_start_without_being_opened() {
    let server = Server::new();
    let mut tenants = Vec::new();
    for number in 0..TENANTS {
        let tenant = server.tenant(&format!("tenant-{number}"));
        server.service.put_stream(&tenant.author, "events", &StreamSettings::default()).unwrap();
        for rule in 0..RULES {
            let name = format!("rule-{rule}");
            let mut manifest = manifest("events");
            manifest.output =
                Some(keyfold::service::model::OutputManifest { stream: Some("outputs".to_owned()), webhook: None });
            server.service.put_rule(&tenant.author, &name, &manifest).unwrap();
            let version = server.upload(&tenant, &name, &counting(0));
            let activate = Activate { version: version.digest, state: Some(StateChoice::Keep) };
            server.service.activate(&tenant.operator, &name, &activate).unwrap();
        }
        server.send(&tenant, &["a"]);
        tenants.push(tenant);
    }
    let all_ran = |server: &Server| {
        tenants.iter().all(|tenant| {
            server
                .service
                .rules(&tenant.reader)
                .unwrap()
                .iter()
                .all(|rule| rule.status.lag == 0 && rule.status.keys == 1)
        })
    };
    wait_until("all rules have run", || all_ran(&server));
    let opened = |server: &Server| -> u64 {
        let seen = server.service.metrics(&server.platform).unwrap();
        let rules = seen.tenants.iter().flat_map(|tenant| &tenant.rules);
        rules.map(|rule| rule.run.as_ref().map_or(0, |run| run.totals.opened)).sum()
    };
    let started = Stopwatch::start();
    let server = server.again();
    let took = started.elapsed();
    assert!(all_ran(&server), "keys and lags are known");
    assert_eq!(opened(&server), 0, "nothing was opened to know that");
    println!("{} rules stopped and started in {} ms", TENANTS * RULES, took.as_millis());
    let first = &tenants[0];
    server.send(first, &["a"]);
    wait_until("the rules of the stream that has more were opened", || opened(&server) == RULES as u64);
    wait_until("they have run", || server.service.state(&first.reader, "rule-7", "a").unwrap()["value"] == 2);
}

#[test]
fn a_folder_has_one_server() {
    let server = Server::new();
    let settings = ServiceSettings {
        data: server.folder.path().to_owned(),
        clock: Clock::System,
        compiler: crate::support::rules::compiler(),
        quotas: Quotas::default(),
    };
    let error = Service::open(settings).err().expect("it is in use");
    assert!(format!("{error:#}").contains("in use by another process"));
}

#[test]
fn a_rule_whose_component_is_gone_is_said_to_have_failed_and_the_others_run() {
    let server = Server::new();
    let (broken, whole) = (server.counting("broken"), server.counting("whole"));
    let Server { service, secret, folder, .. } = server;
    service.stop();
    drop(service);
    let digest = counting(0);
    for tenant in fs::read_dir(folder.path().join("tenants")).unwrap() {
        let path = tenant.unwrap().path();
        let components: Vec<_> =
            fs::read_dir(path.join("components")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(fs::read(&components[0]).unwrap(), digest);
    }
    let service = open(folder.path(), Clock::System);
    let platform = service.authenticate(&secret).unwrap();
    let server = Server { service, platform, secret, folder };
    server.send(&whole, &["a"]);
    server.counts(&whole, &[("a", 1)]);
    // The oldest folder is the first tenant's: ids are in the order in which they were made.
    let mut folders: Vec<_> =
        fs::read_dir(server.folder.path().join("tenants")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    fs::remove_dir_all(folders[0].join("components")).unwrap();
    let server = server.again();
    let rule = server.service.rule(&broken.reader, "count").unwrap();
    assert_eq!(rule.status.state, RuleState::Failed);
    let reason = rule.status.reason.unwrap();
    assert!(!reason.contains(&*server.folder.path().to_string_lossy()), "{reason}");
    server.send(&whole, &["a"]);
    server.counts(&whole, &[("a", 2)]);
}

#[test]
fn what_the_catalogue_does_not_know_is_left_alone_unless_it_is_empty() {
    let server = Server::new();
    server.tenant("acme");
    let tenants = server.folder.path().join("tenants");
    fs::create_dir_all(tenants.join("of-a-later-copy/streams")).unwrap();
    fs::create_dir(tenants.join("empty")).unwrap();
    let server = server.again();
    let tenants = server.folder.path().join("tenants");
    assert!(tenants.join("of-a-later-copy/streams").exists() && !tenants.join("empty").exists());
}
