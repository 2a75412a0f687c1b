//! Breaking a connection on purpose: with a reset, as a network would, not with a polite end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Ends one connection.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    /// Cancelled when the connection is to end, by the server or by this.
    stop: CancellationToken,
    broken: Arc<AtomicBool>,
}

impl Breaker {
    /// For a connection of a server that stops with `stop`.
    pub(super) fn new(stop: &CancellationToken) -> Self {
        Self { stop: stop.child_token(), broken: Arc::default() }
    }

    /// Resets the connection and whatever else goes over it.
    pub(super) fn reset(&self) -> Broken {
        self.broken.store(true, Ordering::SeqCst);
        self.stop.cancel();
        Broken
    }

    /// Waits until the connection is to end.
    pub(super) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }
}

/// Said instead of an answer on a connection that was broken on purpose.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection was broken by a fault rule")]
pub(super) struct Broken;

/// A socket that is reset where its connection was broken, and closed otherwise.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    breaker: Breaker,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, breaker: Breaker) -> Self {
        Self { stream, breaker }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.breaker.is_broken() {
            let _ = self.stream.set_zero_linger(); // A plain close is the next best way to break it.
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
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
