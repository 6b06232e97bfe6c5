//! `keyfold serve`: the rules of many tenants in one process, over HTTP.

mod log;
mod signals;

use anyhow::{Context, Result, bail};
use keyfold::api::server::{self, Remote, Server};
use keyfold::api::{App, ServerSettings};
use keyfold::clock::Clock;
use keyfold::service::{Service, ServiceSettings};
use keyfold::wasm::compile::Compiler;
use signals::Signal;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Host the rules of many tenants: events come in over HTTP, rules are uploaded and swapped while they run
///
/// The first start prints a platform token, this once. A terminate signal lets running requests and batches finish; a second one ends the
/// process. A hang-up signal reads the certificate, the log filter and the default quotas again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold serve --data server
  keyfold serve --data server --listen 127.0.0.1:9000 --admin-token-file admin.token
  keyfold serve --config keyfold.toml

A configuration with everything in it is in docs/service.md.")]
pub struct ServeArgs {
    /// A configuration file; what is on the command line goes before
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The data folder, which is made when it is not there
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// The address to listen on; port 0 for any [default: 127.0.0.1:8420]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,

    /// Listen on other addresses than those of this machine without TLS: when something before this server encrypts
    #[arg(long)]
    insecure_http: bool,

    /// Write the first platform token to this file, instead of standard output
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,

    /// Log lines as JSON
    #[arg(long)]
    log_json: bool,

    /// Send traces to an OpenTelemetry collector, such as http://127.0.0.1:4318/v1/traces
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

impl ServeArgs {
    /// What the configuration file says, and the command line instead.
    fn settings(&self) -> Result<ServerSettings> {
        let file = self.config.as_deref().map(ServerSettings::read).transpose()?.unwrap_or_default();
        Ok(ServerSettings {
            data: self.data.clone().or(file.data),
            listen: self.listen.or(file.listen),
            insecure_http: self.insecure_http || file.insecure_http,
            admin_token_file: self.admin_token_file.clone().or(file.admin_token_file),
            log_json: self.log_json || file.log_json,
            otlp: self.otlp.clone().or(file.otlp),
            ..file
        })
    }
}

/// Serves until it is told to stop. `filter` is what the command line says to log, unless that is the default.
pub fn serve(args: &ServeArgs, filter: &str, is_default_filter: bool) -> Result<()> {
    let settings = args.settings()?;
    let filter = settings.log.as_deref().filter(|_| is_default_filter).unwrap_or(filter).to_owned();
    let address = settings.address()?;
    let data = settings.data.clone().context("the data folder is not set: name it with --data")?;
    let runtime = server::runtime(&settings.http)?;
    let log = log::start(&filter, settings.log_json, settings.otlp.as_deref())?;
    let mut signals = signals::Signals::new(&runtime)?;
    // Before the folder is opened: nothing is made for a server that cannot listen.
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let service = Service::open(ServiceSettings {
        data: data.clone(),
        clock: Clock::System,
        compiler: Compiler::this_binary()?,
        quotas: settings.quotas.clone(),
    })
    .with_context(|| format!("cannot serve {}", data.display()))?;
    if let Some(secret) = service.take_first_secret() {
        give(&secret, settings.admin_token_file.as_deref())?;
    }
    let app = App::new(Arc::clone(&service), settings.http.clone());
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let server = runtime.block_on(Server::new(app, listener, settings.tls.clone()))?;
    let remote = server.remote();
    let serving = runtime.spawn(server.run());
    anstream::eprintln!("listening on {scheme}://{address}");
    runtime.block_on(async {
        tokio::pin!(serving);
        loop {
            tokio::select! {
                ended = &mut serving => return ended.context("the server broke down")?,
                signal = signals.next() => match signal {
                    Signal::Stop => remote.stop(),
                    Signal::Reload => reload(args, &remote, &service, &log, is_default_filter).await,
                },
            }
        }
    })?;
    // All that was answered is on the disk; this lets what rules have planned be committed.
    service.stop();
    drop(service);
    log.flush();
    anstream::eprintln!("stopped");
    Ok(())
}

/// Reads the configuration again. What is wrong leaves everything as it was.
async fn reload(args: &ServeArgs, remote: &Remote, service: &Service, log: &log::Log, may_set_filter: bool) {
    let reloaded = async {
        let settings = args.settings()?;
        if let Some(filter) = settings.log.as_deref().filter(|_| may_set_filter) {
            log.set_filter(filter)?;
        }
        remote.reload().await?;
        service.set_default_quotas(settings.quotas);
        anyhow::Ok(())
    };
    match reloaded.await {
        Ok(()) => tracing::warn!("the settings are read again: certificate, log filter, default quotas"),
        Err(error) => tracing::error!("the settings stay as they were: {error:#}"),
    }
}

/// Gives the first token to whoever started the server: to a file that only they can read, or to standard output.
fn give(secret: &str, file: Option<&Path>) -> Result<()> {
    let Some(path) = file else {
        anstream::eprintln!("the platform token, which is shown this once:");
        let mut stdout = std::io::stdout().lock();
        return writeln!(stdout, "{secret}").and_then(|()| stdout.flush()).context("nobody reads the platform token");
    };
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match opened.and_then(|mut file| writeln!(file, "{secret}").and_then(|()| file.sync_all())) {
        Ok(()) => Ok(()),
        Err(error) => bail!("cannot write the platform token to {}: {error}", path.display()),
    }
}
