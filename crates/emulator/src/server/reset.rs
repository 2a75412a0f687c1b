//! Resetting a connection on purpose: the client sees RST (`ECONNRESET`), as when a host fails, not FIN.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Resets one connection.
#[derive(Clone, Debug)]
pub(super) struct ResetHandle {
    /// Cancelled when the connection is to end, by the server or by this.
    stop: CancellationToken,
    is_reset: Arc<AtomicBool>,
}

impl ResetHandle {
    /// For a connection of a server that stops with `stop`.
    pub(super) fn new(stop: &CancellationToken) -> Self {
        Self { stop: stop.child_token(), is_reset: Arc::default() }
    }

    /// Resets the connection and whatever else goes over it.
    pub(super) fn reset(&self) -> ConnectionReset {
        // Release, before the cancellation: the connection's task is woken by the latter and must see the
        // flag.
        self.is_reset.store(true, Ordering::Release);
        self.stop.cancel();
        ConnectionReset
    }

    /// Waits until the connection is to end.
    pub(super) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    pub(super) fn is_reset(&self) -> bool {
        // Acquire, paired with the Release of `reset`.
        self.is_reset.load(Ordering::Acquire)
    }
}

/// The error in place of a response on a connection that was reset on purpose.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection was reset by a fault rule")]
pub(super) struct ConnectionReset;

/// A socket that sends RST when it is dropped after a reset, and FIN otherwise.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    reset: ResetHandle,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, reset: ResetHandle) -> Self {
        Self { stream, reset }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset.is_reset() {
            // SO_LINGER of zero: closing discards unsent data and sends RST.
            let _ = self.stream.set_zero_linger(); // Where it fails, a FIN in mid-response has to do.
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
