//! [`Server`]: a `keyfold serve` in a folder of its own, and [`Client`], who speaks to it with one token.

use anyhow::{Context, Result, bail, ensure};
use reqwest::blocking::{self, Response};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A server is given this long to start or to stop.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often it is asked whether it is ready.
const POLL: Duration = Duration::from_millis(5);

/// A running server. It is killed when this is dropped.
pub struct Server {
    child: Child,
    port: u16,
    /// From the start of the process until it was ready.
    pub ready_after: Duration,
    /// The token of the platform.
    pub platform: String,
}

/// Somebody with a token.
#[derive(Clone)]
pub struct Client {
    http: blocking::Client,
    url: String,
    token: String,
}

impl Server {
    /// Starts a server in a folder: a new one, or one that a server was in. Then its platform token is needed.
    pub fn start(data: &Path, platform: Option<&str>) -> Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let started = Instant::now();
        let mut child = Command::new(sibling("keyfold")?)
            .arg("serve")
            .arg("--data")
            .arg(data)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(data.with_extension("log"))?)
            .spawn()
            .context("cannot start keyfold serve")?;
        let lines = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
        let (send, said) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut server = Server { child, port, ready_after: Duration::ZERO, platform: String::new() };
        let http = blocking::Client::new();
        while !http.get(format!("{}/readyz", server.url())).send().is_ok_and(|answer| answer.status().is_success()) {
            ensure!(started.elapsed() < PATIENCE, "the server does not become ready");
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended: {status}; see {}", data.with_extension("log").display());
            }
            std::thread::sleep(POLL);
        }
        server.ready_after = started.elapsed();
        server.platform = match platform {
            Some(token) => token.to_owned(),
            None => std::iter::from_fn(|| said.recv_timeout(PATIENCE).ok())
                .find_map(|line| line.split_whitespace().find(|word| word.starts_with("kf_")).map(str::to_owned))
                .context("the first start printed no token")?,
        };
        Ok(server)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Somebody with this token.
    pub fn client(&self, token: &str) -> Result<Client> {
        let http = blocking::Client::builder().timeout(PATIENCE).pool_max_idle_per_host(64).build()?;
        Ok(Client { http, url: self.url(), token: token.to_owned() })
    }

    /// Makes a tenant and gives back its admin.
    pub fn tenant(&self, name: &str, quotas: Value) -> Result<Client> {
        let platform = self.client(&self.platform)?;
        platform.post("tenants", &json!({"name": name, "quotas": quotas}))?;
        let token = platform.post(&format!("tenants/{name}/tokens"), &json!({"name": "admin", "role": "admin"}))?;
        self.client(token["secret"].as_str().context("a token has a secret")?)
    }

    /// Lets it finish what it has, and waits for its end.
    pub fn stop(mut self) -> Result<Duration> {
        let begin = Instant::now();
        let kill = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status()?;
        ensure!(kill.success(), "cannot signal the server");
        while self.child.try_wait()?.is_none() {
            ensure!(begin.elapsed() < PATIENCE, "the server does not stop");
            std::thread::sleep(POLL);
        }
        Ok(begin.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended in order.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// The same tenant at a server that was started again.
    pub fn at(&self, server: &Server) -> Client {
        Client { url: server.url(), ..self.clone() }
    }

    /// Sends JSON, and returns the answer.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.send_json(self.http.post(self.v1(path)), body, path)
    }

    /// The same with PUT.
    pub fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.send_json(self.http.put(self.v1(path)), body, path)
    }

    /// Asks.
    pub fn get(&self, path: &str) -> Result<Value> {
        read(self.http.get(self.v1(path)).bearer_auth(&self.token).send()?, path)
    }

    /// Sends bytes of another type.
    pub fn send(&self, path: &str, content_type: &str, body: Vec<u8>) -> Result<Response> {
        let request = self.http.post(self.v1(path)).bearer_auth(&self.token).header("content-type", content_type);
        Ok(request.body(body).send()?)
    }

    /// Adds events to a stream, and does as it is told when they are too many at once.
    pub fn ingest(&self, stream: &str, lines: Vec<u8>) -> Result<()> {
        loop {
            let answer = self.send(&format!("streams/{stream}/events"), "application/x-ndjson", lines.clone())?;
            if answer.status().as_u16() != 429 {
                read(answer, "events")?;
                return Ok(());
            }
            let pause = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
            std::thread::sleep(Duration::from_secs(pause.unwrap_or(1)));
        }
    }

    /// Makes a rule over a stream, with a component that runs from its first event on.
    pub fn rule(&self, rule: &str, manifest: &Value, component: &Path) -> Result<()> {
        self.put(&format!("rules/{rule}"), manifest)?;
        let digest = self.push(rule, component)?;
        self.post(&format!("rules/{rule}/activate"), &json!({"version": digest, "state": "keep"}))?;
        Ok(())
    }

    /// Uploads a version, and waits for its checks.
    pub fn push(&self, rule: &str, component: &Path) -> Result<String> {
        let bytes = std::fs::read(component).with_context(|| format!("cannot read {}", component.display()))?;
        let path = format!("rules/{rule}/versions");
        let mut version = read(self.send(&path, "application/wasm", bytes)?, &path)?;
        let begin = Instant::now();
        while version["status"] == "checking" {
            ensure!(begin.elapsed() < PATIENCE, "the checks do not end");
            std::thread::sleep(POLL);
            version = self.get(&format!("{path}/{}", version["digest"].as_str().unwrap_or_default()))?;
        }
        ensure!(version["status"] == "ready", "the version was refused: {version}");
        Ok(version["digest"].as_str().context("a version has a digest")?.to_owned())
    }

    /// The events of partition 0 of a stream from this number on, as many as one answer has, and the number after them.
    pub fn read(&self, stream: &str, from: u64) -> Result<Vec<Value>> {
        let path = format!("streams/{stream}/events?partition=0&limit=10000&from={from}");
        let answer = self.http.get(self.v1(&path)).bearer_auth(&self.token).send()?;
        ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.text()?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    fn send_json(&self, request: blocking::RequestBuilder, body: &Value, path: &str) -> Result<Value> {
        let request = request.bearer_auth(&self.token).header("content-type", "application/json");
        read(request.body(body.to_string()).send()?, path)
    }

    fn v1(&self, path: &str) -> String {
        format!("{}/v1/{path}", self.url)
    }
}

fn read(answer: Response, path: &str) -> Result<Value> {
    let status = answer.status();
    let text = answer.text()?;
    ensure!(status.is_success(), "{path}: {status} {text}");
    if text.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(&text)?) }
}

/// A program beside this one.
fn sibling(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    Ok(own.with_file_name(name))
}

/// A component for the tests.
pub fn guest(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let target = own.ancestors().nth(2).context("this program lies in no target folder")?;
    Ok(target.join("guests").join(format!("{name}.wasm")))
}
