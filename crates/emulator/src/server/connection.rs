//! One connection: what it speaks, how long it may stay, and how it ends.
//!
//! The first byte tells TLS from cleartext: a handshake record starts with 0x16, which no HTTP method
//! does. HTTP/1.1 and HTTP/2 are told apart by the HTTP/2 preface, inside TLS as in cleartext, so a
//! client that skips ALPN is understood as well.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::uri::Scheme;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::exchange::{Ends, Exchange, Handler};
use super::inline_executor::InlineExecutor;
use super::limits::{CLOSE_TIMEOUT, Limits, MAX_HEADERS};
use super::reset::{ResetHandle, Socket};
use crate::outcome::ClientOrigin;

/// The first byte of a TLS connection: the content type of a handshake record (RFC 8446, section 5.1).
const TLS_HANDSHAKE_RECORD: u8 = 0x16;

/// The state that the connections of a server share.
pub(super) struct Connections<H> {
    pub(super) tls: TlsAcceptor,
    pub(super) handler: H,
    pub(super) limits: Limits,
}

/// Serves a connection to its end.
///
/// Failures end the connection and nothing else: they are the client's doing, and the client sees them.
pub(super) async fn serve<H: Handler>(
    stream: TcpStream,
    connections: Arc<Connections<H>>,
    stop: CancellationToken,
) {
    let reset = ResetHandle::new(&stop);
    let opened = tokio::select! {
        () = stop.cancelled() => return,
        opened = open(stream, &connections, &reset) => opened,
    };
    match opened {
        Ok(Opened::Clear(stream, exchange)) => run(stream, exchange, reset).await,
        Ok(Opened::Tls(stream, exchange)) => run(*stream, exchange, reset).await,
        Err(_) => {}
    }
}

/// A connection of which we know whether it is encrypted.
enum Opened<H> {
    Clear(Socket, Exchange<H>),
    Tls(Box<tokio_rustls::server::TlsStream<Socket>>, Exchange<H>),
}

async fn open<H: Handler>(
    stream: TcpStream,
    connections: &Arc<Connections<H>>,
    reset: &ResetHandle,
) -> io::Result<Opened<H>> {
    // Responses are written whole: Nagle's algorithm (RFC 896) would hold back their last segment until the
    // client acknowledges the one before.
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let origin = ClientOrigin::of(stream.peer_addr()?.ip());
    let Connections { tls, limits, .. } = &**connections;
    let exchange = |scheme| {
        let ends = Ends { scheme, local, origin };
        Exchange::new(Arc::clone(connections), ends, reset.clone())
    };

    let mut first = [0];
    // Peeked, not read: the byte belongs to the TLS or HTTP parser.
    let length = timeout(limits.first_request, stream.peek(&mut first)).await??;
    let stream = Socket::new(stream, reset.clone());
    if length == 1 && first[0] == TLS_HANDSHAKE_RECORD {
        let stream = timeout(limits.tls_handshake, tls.accept(stream)).await??;
        return Ok(Opened::Tls(Box::new(stream), exchange(Scheme::HTTPS)));
    }
    Ok(Opened::Clear(stream, exchange(Scheme::HTTP)))
}

async fn run<S, H>(stream: S, exchange: Exchange<H>, reset: ResetHandle)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let exchange = Arc::new(exchange);
    let limits = exchange.limits();
    let activity = Arc::new(Activity::default());
    let service = service_fn(|request: http::Request<Incoming>| {
        let (exchange, in_flight) = (Arc::clone(&exchange), activity.begin());
        async move {
            let response = exchange.respond(request).await;
            drop(in_flight); // Moved in here: a request whose future is dropped is not in flight any more.
            response
        }
    });
    let builder = protocols(limits);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return, // Served to its end, or failed: over either way.
        () = activity.until_idle(limits) => {}
        () = exchange.until_closing() => {
            // Requests under way are still answered; one that never ends is bounded as on any connection.
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                _ = connection.as_mut() => return,
                () = activity.until_idle(limits) => {}
                () = reset.stopped() => return,
            }
        }
        () = reset.stopped() => {
            if reset.is_reset() {
                return;
            }
            connection.as_mut().graceful_shutdown();
            let _ = connection.await; // The listener bounds how long this may take.
            return;
        }
    }
    // GOAWAY in HTTP/2 (RFC 9113, section 6.8), the end of keep-alive in HTTP/1.1.
    connection.as_mut().graceful_shutdown();
    let _ = timeout(CLOSE_TIMEOUT, connection).await; // Dropping it closes it where asking did not.
}

fn protocols(limits: &Limits) -> auto::Builder<InlineExecutor> {
    let mut builder = auto::Builder::new(InlineExecutor);
    builder
        .http1()
        .max_headers(MAX_HEADERS)
        // The read buffer bounds the bytes of a head; hyper has no limit of its own for them.
        .max_buf_size(limits.max_header_bytes as usize)
        // Slow heads and idle connections are closed by `Activity`, for both protocols alike.
        .header_read_timeout(None);
    builder
        .http2()
        .max_concurrent_streams(limits.max_concurrent_streams)
        .max_header_list_size(limits.max_header_bytes);
    builder
}

/// The activity of a connection: requests begun, and requests in flight. The idle timeout looks at both.
#[derive(Debug, Default)]
struct Activity {
    begun: AtomicUsize,
    in_flight: AtomicUsize,
}

/// A guard: its request is in flight until it is dropped.
struct InFlight(Arc<Activity>);

impl Activity {
    fn begin(self: &Arc<Self>) -> InFlight {
        // Relaxed: the numbers are read as a heuristic once a period, and guard no other memory.
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Waits until a whole period has passed in which nothing began and nothing was in flight.
    async fn until_idle(&self, limits: &Limits) {
        // A period without a request begun, rather than a timer per request: nothing is touched on the way of
        // a request but two counters. A connection closes after one to two periods.
        let mut seen = 0;
        let mut period = limits.first_request;
        loop {
            tokio::time::sleep(period).await;
            // Relaxed: see `begin`.
            let begun = self.begun.load(Ordering::Relaxed);
            if begun == seen && self.in_flight.load(Ordering::Relaxed) == 0 {
                return;
            }
            seen = begun;
            period = limits.idle;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // Relaxed: a count that the idle timer reads; it publishes nothing.
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
