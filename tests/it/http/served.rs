//! [`Served`]: a server of the tests' own, the real binary on a free port, and what it starts with.

use super::ask::Ask;
use crate::support::command::{self, Finished};
use crate::support::process::{Process, wait_until};
use crate::support::rules;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A running server.
pub struct Served {
    process: Process,
    pub url: String,
    /// Whoever has the platform token.
    pub platform: Ask,
    folder: TempDir,
    args: Vec<String>,
}

/// The roles of a tenant.
pub const ROLES: [&str; 4] = ["admin", "author", "operator", "reader"];

impl Served {
    /// Starts a server over a new folder.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts it with these arguments, too.
    pub fn with(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        Self::over(folder, args.iter().map(|arg| (*arg).to_owned()).collect())
    }

    /// Starts it with a configuration.
    pub fn configured(configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("keyfold.toml");
        fs::write(&path, configuration).expect("the disk has room");
        let args = vec!["--config".to_owned(), path.display().to_string()];
        Self::over(folder, args)
    }

    fn over(folder: TempDir, args: Vec<String>) -> Self {
        let process = start(folder.path(), &args);
        let said = "listening on ";
        let mut url = String::new();
        wait_until("the server listens", || {
            let text = process.said();
            url = text.split(said).nth(1).and_then(|rest| rest.split_once('\n')).map_or("", |(url, _)| url).to_owned();
            !url.is_empty()
        });
        let token = fs::read_to_string(folder.path().join("admin.token")).expect("it has written its token");
        let platform = Ask::nobody(&url).with(token.trim());
        Served { process, url, platform, folder, args }
    }

    /// Asks without a token.
    pub fn nobody(&self) -> Ask {
        Ask::nobody(&self.url)
    }

    /// Makes a tenant, and returns whoever has a token of it with each role, in the order of [`ROLES`].
    pub fn tenant(&self, name: &str) -> [Ask; 4] {
        self.tenant_with(name, json!({}))
    }

    /// Makes a tenant with these quotas.
    pub fn tenant_with(&self, name: &str, quotas: Value) -> [Ask; 4] {
        self.platform.post("/v1/tenants", json!({ "name": name, "quotas": quotas })).ok();
        ROLES.map(|role| self.platform.with(&self.token(name, &format!("{name}-{role}"), role)))
    }

    /// Makes a token of a tenant and returns its secret.
    pub fn token(&self, tenant: &str, name: &str, role: &str) -> String {
        let body = json!({ "name": name, "role": role });
        let made = self.platform.post(&format!("/v1/tenants/{tenant}/tokens"), body).ok();
        made["secret"].as_str().expect("it has a secret").to_owned()
    }

    /// The folder around its data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(self) -> (Finished, Stopped) {
        let stopped = Stopped { folder: self.folder, args: self.args };
        (self.process.terminate(), stopped)
    }

    /// Waits until it has ended.
    pub fn finish(self) -> (Finished, Stopped) {
        let stopped = Stopped { folder: self.folder, args: self.args };
        (self.process.finish(), stopped)
    }

    /// Kills it, as no program can prevent.
    pub fn kill(self) -> Stopped {
        self.process.kill();
        Stopped { folder: self.folder, args: self.args }
    }
}

/// The folder of a server that does not run.
pub struct Stopped {
    folder: TempDir,
    args: Vec<String>,
}

impl Stopped {
    /// Starts a server over it.
    pub fn start(self) -> Served {
        Served::over(self.folder, self.args)
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("server")
    }
}

fn start(folder: &Path, args: &[String]) -> Process {
    let data = folder.join("server").display().to_string();
    let token = folder.join("admin.token").display().to_string();
    let mut call = command::keyfold(["serve", "--data", &data, "--admin-token-file", &token]);
    if !args.iter().any(|arg| arg == "--listen") {
        call.args(["--listen", "127.0.0.1:0"]);
    }
    Process::start(call.args(args).env("HOME", folder))
}

/// The manifest of a rule that reads a stream of `{"key": …, "at": …}`.
pub fn manifest(stream: &str) -> Value {
    json!({ "inputs": { "input": { "stream": stream, "key": ["/key"], "event_time": "/at" } } })
}

/// Uploads a component and waits until it is checked. Returns the version.
pub fn upload(ask: &Ask, rule: &str, component: Vec<u8>) -> Value {
    let path = format!("/v1/rules/{rule}/versions");
    let mut version = ask.send(reqwest::Method::POST, &path, "application/wasm", component).ok();
    let path = format!("{path}/{}", version["digest"].as_str().expect("it has a digest"));
    wait_until("the version is checked", || {
        version = ask.get(&path).ok();
        version["status"] != "checking"
    });
    version
}

/// Makes stream and rule, and lets a guest of the tests run.
pub fn run_guest(ask: &Ask, rule: &str, stream: &str, guest: &str) -> Value {
    ask.put(&format!("/v1/streams/{stream}"), json!({})).ok();
    ask.put(&format!("/v1/rules/{rule}"), manifest(stream)).ok();
    let version = upload(ask, rule, rules::guest(guest));
    assert_eq!(version["status"], "ready", "{version}");
    ask.post(&format!("/v1/rules/{rule}/activate"), json!({ "version": version["digest"] })).ok()
}

/// Events of these keys, as lines of JSON.
pub fn lines<'k>(keys: impl IntoIterator<Item = &'k str>) -> String {
    let event = |(number, key): (usize, &str)| rules::event(key, number as i64 * 1000) + "\n";
    keys.into_iter().enumerate().map(event).collect()
}

/// Sends lines of JSON to a stream.
pub fn send(ask: &Ask, stream: &str, lines: &str) -> Value {
    ask.send(reqwest::Method::POST, &format!("/v1/streams/{stream}/events"), "application/x-ndjson", lines).ok()
}

/// The events of a stream's only partition, from its start.
pub fn events(ask: &Ask, stream: &str) -> Vec<Value> {
    let reply = ask.get(&format!("/v1/streams/{stream}/events?limit=10000")).with_status(200);
    reply.text.lines().map(|line| serde_json::from_str::<Value>(line).expect("it is JSON")["event"].clone()).collect()
}
