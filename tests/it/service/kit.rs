//! A service over a temporary folder, with tenants that have a token of each role.

use crate::support::process::wait_until;
use crate::support::rules::{compiler, example};
use keyfold::clock::Clock;
use keyfold::service::model::{
    Activate, InputManifest, Manifest, NewTenant, NewToken, Quotas, Role, StreamSettings, Version, VersionStatus,
};
use keyfold::service::{Caller, EventsBody, EventsQuery, Service, ServiceSettings, Tuning};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A service over a temporary folder.
pub struct Server {
    pub service: Arc<Service>,
    pub platform: Caller,
    pub secret: String,
    pub folder: TempDir,
}

/// A tenant with a token of each role.
pub struct Tenant {
    pub admin: Caller,
    pub author: Caller,
    pub operator: Caller,
    pub reader: Caller,
}

/// Opens a service over a folder.
pub fn open(data: &Path, clock: Clock) -> Arc<Service> {
    let settings = ServiceSettings { data: data.to_owned(), clock, compiler: compiler(), quotas: Quotas::default() };
    let tuning = Tuning {
        park_after: Some(Duration::from_millis(200)),
        // One for each append.
        segment_bytes: Some(1),
        twice: true,
        ..Tuning::default()
    };
    Service::open_tuned(settings, tuning).unwrap_or_else(|error| panic!("the service does not open: {error:#}"))
}

impl Server {
    /// A new one.
    pub fn new() -> Self {
        Server::with_clock(Clock::System)
    }

    /// A new one with this clock.
    pub fn with_clock(clock: Clock) -> Self {
        let folder = crate::support::folder::fast();
        let service = open(folder.path(), clock);
        let secret = service.take_first_secret().expect("a new folder has a first token");
        let platform = service.authenticate(&secret).expect("the first token holds");
        Server { service, platform, secret, folder }
    }

    /// Stops it and opens its folder again.
    pub fn again(self) -> Self {
        let Server { service, secret, folder, .. } = self;
        service.stop();
        drop(service);
        let service = open(folder.path(), Clock::System);
        let platform = service.authenticate(&secret).expect("the token is kept");
        Server { service, platform, secret, folder }
    }

    /// A tenant with a token of each role.
    pub fn tenant(&self, name: &str) -> Tenant {
        self.tenant_with(name, Quotas::default())
    }

    /// The same with quotas.
    pub fn tenant_with(&self, name: &str, quotas: Quotas) -> Tenant {
        self.service.create_tenant(&self.platform, &NewTenant { name: name.to_owned(), quotas }).unwrap();
        let token = |role: Role, token: &str| {
            let new = NewToken { name: token.to_owned(), role, expires_in: None };
            let made = self.service.create_tenant_token(&self.platform, name, &new).unwrap();
            self.service.authenticate(&made.secret).expect("a new token holds")
        };
        Tenant {
            admin: token(Role::Admin, "admin"),
            author: token(Role::Author, "author"),
            operator: token(Role::Operator, "operator"),
            reader: token(Role::Reader, "reader"),
        }
    }

    /// A stream `events` and a rule `count` over it with the keys `/key`.
    pub fn rule(&self, tenant: &Tenant) {
        self.service.put_stream(&tenant.author, "events", &StreamSettings::default()).unwrap();
        self.service.put_rule(&tenant.author, "count", &manifest("events")).unwrap();
    }

    /// Uploads a version and waits for its checks.
    pub fn upload(&self, tenant: &Tenant, rule: &str, bytes: &[u8]) -> Version {
        let version = self.service.upload_version(&tenant.author, rule, bytes).unwrap().value;
        self.checked(tenant, rule, &version.digest)
    }

    /// Waits for the checks of a version.
    pub fn checked(&self, tenant: &Tenant, rule: &str, digest: &str) -> Version {
        let mut version = None;
        wait_until("the checks have ended", || {
            let found = self.service.version(&tenant.reader, rule, digest).unwrap();
            let has_ended = found.status != VersionStatus::Checking;
            version = Some(found);
            has_ended
        });
        version.unwrap()
    }

    /// Uploads a version, waits for its checks and activates it with the states as they are.
    pub fn run(&self, tenant: &Tenant, rule: &str, bytes: &[u8]) -> Version {
        let version = self.upload(tenant, rule, bytes);
        assert_eq!(version.status, VersionStatus::Ready, "{:?}", version.reason);
        let activate = Activate { version: version.digest.clone(), state: Some(keyfold::host::StateChoice::Keep) };
        self.service.activate(&tenant.operator, rule, &activate).unwrap();
        version
    }

    /// A rule that counts, and runs.
    pub fn counting(&self, name: &str) -> Tenant {
        let tenant = self.tenant(name);
        self.rule(&tenant);
        self.run(&tenant, "count", &counting(0));
        tenant
    }

    /// Sends events with these keys.
    pub fn send(&self, tenant: &Tenant, keys: &[&str]) {
        let text: String = keys.iter().map(|key| json!({ "key": key }).to_string() + "\n").collect();
        self.service.append(&tenant.operator, "events", &lines(text.as_bytes())).unwrap();
    }

    /// All events of the first partition of a stream.
    pub fn read(&self, tenant: &Tenant, stream: &str) -> Vec<Value> {
        let query = EventsQuery { limit: Some(10_000), ..EventsQuery::default() };
        let page = self.service.read_events(&tenant.reader, stream, &query).unwrap();
        page.events.into_iter().map(|event| event.event).collect()
    }

    /// The highest count of each key that the rule has put out, once these keys have these counts.
    pub fn counts(&self, tenant: &Tenant, wanted: &[(&str, u64)]) {
        let wanted: BTreeMap<String, u64> = wanted.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect();
        let counts = || {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for output in self.read(tenant, "count.outputs") {
                let said = &output["output"];
                let count = counts.entry(said["key"].as_str().unwrap().to_owned()).or_default();
                *count = (*count).max(said["count"].as_u64().unwrap());
            }
            counts
        };
        wait_until("all events are counted", || counts() == wanted);
    }
}

/// A manifest with one input.
pub fn manifest(stream: &str) -> Manifest {
    let input = InputManifest {
        stream: stream.to_owned(),
        key: vec!["/key".to_owned()],
        event_time: None,
        event_time_format: None,
        watermark_delay: None,
        idle_after: None,
        from: Default::default(),
    };
    serde_json::from_value(json!({ "inputs": { "input": input } })).unwrap()
}

/// The rule that counts. Those with other numbers have other bytes and do the same.
pub fn counting(number: u8) -> Vec<u8> {
    variant(example("running-count"), number)
}

/// The same code in other bytes: with a section that nobody reads.
pub fn variant(mut bytes: Vec<u8>, number: u8) -> Vec<u8> {
    const NAME: &[u8] = b"variant";
    bytes.extend_from_slice(&[0, NAME.len() as u8 + 2, NAME.len() as u8]);
    bytes.extend_from_slice(NAME);
    bytes.push(number);
    bytes
}

/// A body of lines of JSON.
pub fn lines(body: &[u8]) -> EventsBody<'_> {
    EventsBody { content_type: "application/x-ndjson", cloud_event_headers: &[], body, idempotency_key: None }
}

/// A body with one event.
pub fn one(body: &[u8]) -> EventsBody<'_> {
    EventsBody { content_type: "application/json", ..lines(body) }
}
