//! [`Bounded`]: takes connections as long as there are not too many. One more is closed at once, which costs the server next to
//! nothing; what waits in a queue would cost a file.

use axum_server::accept::Accept;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Takes connections as long as there are not too many.
#[derive(Clone)]
pub struct Bounded {
    places: Arc<Semaphore>,
}

impl Bounded {
    /// So many at the same time.
    pub fn new(connections: usize) -> Self {
        Bounded { places: Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS))) }
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for Bounded {
    type Stream = Counted;
    type Service = S;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Counted, S)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let place = Arc::clone(&self.places).try_acquire_owned();
        Box::pin(async move {
            let place = place.map_err(|_| io::Error::other("there are too many connections"))?;
            // Answers are small, and somebody waits for each.
            stream.set_nodelay(true)?;
            Ok((Counted { stream, _place: place }, service))
        })
    }
}

/// A connection with its place.
pub struct Counted {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
