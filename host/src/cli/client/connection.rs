//! [`Connection`]: requests to a server with the token of a login, and its answers.

use super::login_file::Login;
use anyhow::{Context, Result, bail, ensure};
use reqwest::blocking::{Client, RequestBuilder, Response};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Certificate, Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long connecting may take: a server that is there answers at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one answer may take: the server gives up before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(330);
/// So often a request that the server has no room for is sent again.
const ATTEMPTS_MAX: u32 = 30;
/// At most so long is waited before the next attempt.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Which server is asked, and how the answer is shown.
#[derive(Debug, clap::Args)]
pub struct ConnectArgs {
    /// The server [default: that of `keyfold login`]
    #[arg(long, value_name = "URL", env = "KEYFOLD_URL")]
    url: Option<String>,

    /// The certificate (PEM) of the authority that signed the server's, when it is one of your own
    #[arg(long, value_name = "FILE", env = "KEYFOLD_CA")]
    ca: Option<PathBuf>,

    /// Let the token travel unencrypted to another machine
    #[arg(long)]
    insecure_http: bool,

    /// Print JSON: one line for each thing
    #[arg(long)]
    pub json: bool,
}

impl ConnectArgs {
    /// Opens a connection with the token in `KEYFOLD_TOKEN` or that of `keyfold login`.
    pub fn connect(&self) -> Result<Connection> {
        let login = Login::read()?;
        let token = std::env::var("KEYFOLD_TOKEN").ok().filter(|token| !token.trim().is_empty());
        let url = match (&self.url, &login) {
            (Some(url), _) => url.clone(),
            (None, Some(login)) => login.url.clone(),
            (None, None) => bail!("no server is known: log in with `keyfold login URL`, or set KEYFOLD_URL"),
        };
        let same_server = login.as_ref().filter(|login| login.url.trim_end_matches('/') == url.trim_end_matches('/'));
        let token = match (token, same_server) {
            (Some(token), _) => token,
            (None, Some(login)) => login.token.clone(),
            // The token of one server is nothing that another one may see.
            (None, None) => {
                bail!("no token is known for {url}: log in with `keyfold login {url}`, or set KEYFOLD_TOKEN")
            }
        };
        let ca = self.ca.clone().or_else(|| same_server.and_then(|login| login.ca.clone()));
        let insecure_http = self.insecure_http || same_server.is_some_and(|login| login.insecure_http);
        Connection::new(&url, &token, ca.as_deref(), insecure_http)
    }

    /// Opens a connection with a token that is not remembered yet. Returns what to remember, too.
    pub(super) fn connect_with(&self, url: &str, token: &str) -> Result<(Connection, Login)> {
        let ca = self.ca.as_deref().map(std::path::absolute).transpose()?;
        let connection = Connection::new(url, token, ca.as_deref(), self.insecure_http)?;
        let url = url.trim_end_matches('/').to_owned();
        Ok((connection, Login { url, token: token.to_owned(), ca, insecure_http: self.insecure_http }))
    }
}

/// A server that is asked with a token.
pub struct Connection {
    client: Client,
    url: Url,
    token: String,
}

impl Connection {
    fn new(url: &str, token: &str, ca: Option<&Path>, insecure_http: bool) -> Result<Self> {
        let url = Url::parse(url).with_context(|| format!("'{url}' is no URL: write https://HOST:PORT"))?;
        ensure!(!url.cannot_be_a_base() && url.has_host(), "'{url}' is no URL of a server");
        ensure!(
            url.scheme() == "https" || insecure_http || is_this_machine(&url),
            "{url} is not encrypted and anybody between could take the token: use https, or --insecure-http"
        );
        let token = token.trim();
        ensure!(token.bytes().all(|byte| byte.is_ascii_graphic()), "the token has a character that no token has");
        // A redirected request would take the token elsewhere.
        let mut client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(None)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("keyfold/", env!("CARGO_PKG_VERSION")));
        if let Some(ca) = ca {
            let pem = std::fs::read(ca).with_context(|| format!("cannot read {}", ca.display()))?;
            let certificates = Certificate::from_pem_bundle(&pem)
                .with_context(|| format!("{} holds no certificate in PEM form", ca.display()))?;
            client = client.tls_certs_merge(certificates);
        }
        Ok(Connection { client: client.build()?, url, token: token.to_owned() })
    }

    /// A request for `/v1/…`, by the segments of its path, which are escaped.
    pub fn request<'s>(&self, method: Method, path: impl IntoIterator<Item = &'s str>) -> Request<'_> {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        Request { connection: self, method, url, headers: Vec::new(), body: None, attempts: 1 }
    }

    /// What the server says at this path.
    pub fn get<'s, T: DeserializeOwned>(&self, path: impl IntoIterator<Item = &'s str>) -> Result<T> {
        self.request(Method::GET, path).answer()
    }
}

/// A loopback address: nobody else hears what is sent there.
fn is_this_machine(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
        None => false,
    }
}

/// A request that has not been sent.
pub struct Request<'c> {
    connection: &'c Connection,
    method: Method,
    url: Url,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
    attempts: u32,
}

impl Request<'_> {
    /// With a query parameter, if it has a value.
    pub fn query(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.url.query_pairs_mut().append_pair(name, &value.to_string());
        }
        self
    }

    /// With a header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// With a JSON body.
    pub fn json(self, body: &impl Serialize) -> Result<Self> {
        let bytes = serde_json::to_vec(body)?;
        Ok(self.body("application/json", bytes))
    }

    /// With a body.
    pub fn body(mut self, content_type: &str, bytes: Vec<u8>) -> Self {
        self.headers.push((CONTENT_TYPE_NAME, content_type.to_owned()));
        self.body = Some(bytes);
        self
    }

    /// Sent again while the server has no room for it. Only for what may be sent twice.
    pub fn again_when_busy(mut self) -> Self {
        self.attempts = ATTEMPTS_MAX;
        self
    }

    /// Sends it. The answer is JSON of this form.
    pub fn answer<T: DeserializeOwned>(self) -> Result<T> {
        let what = self.what();
        let bytes = self.send()?.bytes().with_context(|| format!("the answer to {what} broke off"))?;
        serde_json::from_slice(&bytes).with_context(|| format!("the answer to {what} is not what was expected"))
    }

    /// Sends it. There is nothing in the answer.
    pub fn done(self) -> Result<()> {
        self.send().map(drop)
    }

    /// Sends it. The answer can be read while it comes.
    pub fn send(self) -> Result<Response> {
        let mut attempt = 1;
        loop {
            let response = self.build(Some(ANSWER_TIMEOUT)).send();
            let response = response.with_context(|| format!("{} did not answer", self.connection.url))?;
            let wait = retry_after(&response).filter(|_| attempt < self.attempts);
            match wait {
                Some(wait) => std::thread::sleep(wait),
                None => return checked(response),
            }
            attempt += 1;
        }
    }

    /// Sends it. The answer has no end.
    pub fn open(self) -> Result<Response> {
        let response = self.build(None).send();
        checked(response.with_context(|| format!("{} did not answer", self.connection.url))?)
    }

    fn build(&self, timeout: Option<Duration>) -> RequestBuilder {
        let mut builder = self.connection.client.request(self.method.clone(), self.url.clone());
        builder = builder.bearer_auth(&self.connection.token);
        for (name, value) in &self.headers {
            builder = builder.header(*name, value);
        }
        if let Some(timeout) = timeout {
            builder = builder.timeout(timeout);
        }
        match &self.body {
            Some(body) => builder.body(body.clone()),
            None => builder,
        }
    }

    fn what(&self) -> String {
        format!("{} {}", self.method, self.url.path())
    }
}

const CONTENT_TYPE_NAME: &str = "content-type";

/// How long to wait before the next attempt, when the server asks for one.
fn retry_after(response: &Response) -> Option<Duration> {
    let is_busy = matches!(response.status().as_u16(), 429 | 503);
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    is_busy.then(|| Duration::from_secs(seconds).clamp(Duration::from_millis(100), WAIT_MAX))
}

/// The answer, or the error that it describes.
fn checked(response: Response) -> Result<Response> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
    let text = response.text().unwrap_or_default();
    let problem: Value = if is_problem { serde_json::from_str(&text).unwrap_or_default() } else { Value::Null };
    let part = |name: &str| problem[name].as_str().map(str::to_owned);
    let detail = part("detail").or_else(|| part("title")).unwrap_or_else(|| text.chars().take(200).collect());
    bail!(Refused { status: status.as_u16(), code: part("code"), detail, request_id: part("request_id") })
}

/// What the server has refused, in its words.
#[derive(Debug)]
pub struct Refused {
    /// The status of the answer.
    pub status: u16,
    code: Option<String>,
    detail: String,
    request_id: Option<String>,
}

impl Refused {
    /// Whether this is why something failed, and the thing is not there.
    pub fn is_not_found(error: &anyhow::Error) -> bool {
        error.downcast_ref::<Refused>().is_some_and(|refused| refused.status == 404)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.detail)?;
        if let Some(code) = &self.code {
            write!(f, "{code}, ")?;
        }
        write!(f, "{}", self.status)?;
        if let Some(id) = &self.request_id {
            write!(f, ", request {id}")?;
        }
        write!(f, ")")
    }
}

impl std::error::Error for Refused {}
