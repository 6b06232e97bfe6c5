//! [`Server`]: listens, speaks HTTP with or without TLS, and stops without breaking a request off.

use super::app::App;
use super::connections::Bounded;
use super::router::router;
use super::work::Work;
use super::{HttpLimits, TlsSettings, tls};
use anyhow::{Context, Result};
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use std::net::{SocketAddr, TcpListener};

/// Listens for requests, and has not begun to answer them.
pub struct Server {
    app: App,
    listener: TcpListener,
    tls: Option<(RustlsConfig, TlsSettings)>,
    handle: Handle<SocketAddr>,
}

/// Stops or changes a running server.
#[derive(Clone)]
pub struct Remote {
    app: App,
    tls: Option<(RustlsConfig, TlsSettings)>,
    handle: Handle<SocketAddr>,
}

/// Streams that a client may have open in a connection of HTTP/2 at the same time.
const STREAMS_MAX: u32 = 128;
/// The smallest buffer that HTTP/1 works with.
const BUFFER_BYTES_MIN: usize = 8 * 1024;

/// The runtime of a server: threads that never wait, and those for work that does.
pub fn runtime(limits: &HttpLimits) -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("http")
        // Some more for looking up names and reading files.
        .max_blocking_threads(Work::threads(limits.waiting_requests) + 16)
        .build()
        .context("the threads for requests do not start")
}

impl Server {
    /// For these listener and routes.
    pub async fn new(app: App, listener: TcpListener, tls: Option<TlsSettings>) -> Result<Self> {
        let tls = match tls {
            Some(settings) => Some((tls::read(&settings).await?, settings)),
            None => None,
        };
        Ok(Server { app, listener, tls, handle: Handle::new() })
    }

    /// What stops and changes it.
    pub fn remote(&self) -> Remote {
        Remote { app: self.app.clone(), tls: self.tls.clone(), handle: self.handle.clone() }
    }

    /// Answers requests until it is stopped, and then until the last one is answered.
    pub async fn run(self) -> Result<()> {
        let limits = self.app.limits.clone();
        let connections = Bounded::new(limits.connections);
        let server = bounded(axum_server::from_tcp(self.listener)?.handle(self.handle), &limits);
        let routes = router(self.app).into_make_service();
        let served = match self.tls {
            None => server.acceptor(connections).serve(routes).await,
            Some((config, _)) => {
                let tls = RustlsAcceptor::new(config).handshake_timeout(limits.header_timeout);
                server.acceptor(tls.acceptor(connections)).serve(routes).await
            }
        };
        served.context("the server cannot go on listening")
    }
}

/// The server with its bounds on connections and headers.
fn bounded<A>(
    mut server: axum_server::Server<SocketAddr, A>,
    limits: &HttpLimits,
) -> axum_server::Server<SocketAddr, A> {
    let header_bytes = limits.header_bytes.max(BUFFER_BYTES_MIN);
    let builder = server.http_builder();
    builder
        .http1()
        .max_headers(limits.headers)
        .max_buf_size(header_bytes)
        .header_read_timeout(Some(limits.header_timeout));
    builder
        .http2()
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(Some(STREAMS_MAX))
        .keep_alive_interval(Some(limits.request_timeout));
    server.first_request_timeout(Some(limits.header_timeout))
}

impl Remote {
    /// Takes no more connections, ends the tails, and lets the other requests finish, for a while.
    pub fn stop(&self) {
        self.app.stop();
        self.handle.graceful_shutdown(Some(self.app.limits.stop_timeout));
    }

    /// Reads the certificate again.
    pub async fn reload(&self) -> Result<()> {
        match &self.tls {
            Some((config, settings)) => tls::reload(config, settings).await,
            None => Ok(()),
        }
    }
}
