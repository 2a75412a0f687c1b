//! HTTP/1.1: a pool of connections, one request at a time on each.
//!
//! Idle connections are kept in numbered slots, the lowest free one first (LIFO use), so that a trickle of
//! requests uses the same few and the others reach the idle timeout. Slots are swapped whole: there is no
//! lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_utils::atomic::AtomicCell;
use http::header::HOST;
use http::{HeaderValue, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use super::connector::{Connector, Stream};
use super::limits::{MAX_HEAD_BYTES, MAX_RESPONSE_BYTES};
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::exchange::{HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};
use crate::system::Clock;
use crate::transport::{HttpRequest, HttpResponse};

/// How long a connection may take after a response to be ready for the next request. It is ready at once,
/// unless the peer responded before it had read the whole request and reads no further.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// A pool of HTTP/1.1 connections to one endpoint.
pub(super) struct Http1Pool {
    connector: Connector,
    host: HeaderValue,
    idle: Box<[AtomicCell<Option<Box<IdleConnection>>>]>,
    is_evicted: AtomicBool,
    /// Ends the connections when the pool is closed or dropped.
    end: CancellationToken,
}

/// A connection without a request.
struct IdleConnection {
    connection: PooledConnection,
    since: Instant,
}

/// A connection, and when it was made.
struct PooledConnection {
    sender: SendRequest<Full<Bytes>>,
    made: Instant,
}

impl Http1Pool {
    /// A pool whose first connection is made already.
    pub(super) async fn start(stream: Stream, connector: Connector) -> Result<Self, HttpError> {
        let slots = connector.config.pool_max_idle_per_host.max(1);
        let host = HeaderValue::from_str(connector.endpoint.authority().as_str())
            .expect("an authority is a header value");
        let pool = Self {
            connector,
            host,
            idle: (0..slots).map(|_| AtomicCell::new(None)).collect(),
            is_evicted: AtomicBool::new(false),
            end: CancellationToken::new(),
        };
        let connection = pool.handshake(stream).await?;
        pool.check_in(connection);
        Ok(pool)
    }

    /// Ends all connections and the requests on them.
    pub(super) fn close(&self) {
        // Before the cancellation: requests that fail by it read why (Release, pairs with `loss_kind`).
        self.is_evicted.store(true, Ordering::Release);
        self.end.cancel();
    }

    /// Sends a request and waits for its whole response.
    pub(super) async fn execute(
        &self,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        let mut request = self.in_origin_form(request);
        loop {
            let (mut connection, is_new) = match self.check_out().await {
                Some(connection) => (connection, false),
                None => {
                    diagnostics.record(RequestEventKind::Connecting);
                    (self.connect().await?, true)
                }
            };
            // Before it is polled: a future that is dropped at its deadline may have sent it.
            diagnostics.sent();
            match connection.sender.try_send_request(request).await {
                Ok(answer) => {
                    diagnostics.record(RequestEventKind::ResponseHeadersReceived);
                    let answer = self.read(answer).await?;
                    self.check_in(connection);
                    return Ok(answer);
                }
                Err(mut refused) => {
                    // hyper hands the message back if and only if no byte of it was written.
                    let back = refused.take_message();
                    let sent = match back {
                        Some(_) => RequestSentStatus::NotSent,
                        None => RequestSentStatus::MaybeSent,
                    };
                    diagnostics.request_sent = sent;
                    match back {
                        // The peer closed the connection while it was idle (RFC 9112, section 9.3.1);
                        // the next may be open.
                        Some(unsent) if !is_new => request = unsent,
                        _ => return Err(self.failure(sent, refused.into_error())),
                    }
                }
            }
        }
    }

    /// Origin form (RFC 9112, section 3.2.1): the path in the request line, the host in a header.
    fn in_origin_form(&self, request: HttpRequest) -> http::Request<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().cloned();
        head.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        head.headers.insert(HOST, self.host.clone());
        http::Request::from_parts(head, Full::new(body))
    }

    async fn read(
        &self,
        answer: http::Response<hyper::body::Incoming>,
    ) -> Result<HttpResponse, HttpError> {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await.map_err(|error| {
            let endpoint = &self.connector.endpoint;
            let (kind, sentence) = match error.is::<LengthLimitError>() {
                true => (
                    HttpErrorKind::ResponseTooLarge,
                    format!("the answer of {endpoint} is longer than {MAX_RESPONSE_BYTES} bytes"),
                ),
                false => (
                    self.loss_kind(),
                    format!("the connection was lost in the middle of the answer ({endpoint})"),
                ),
            };
            HttpError::new(kind, RequestSentStatus::MaybeSent, format!("{sentence}: {error}"))
        })?;
        Ok(http::Response::from_parts(head, body.to_bytes()))
    }

    /// An idle connection that can take a request.
    async fn check_out(&self) -> Option<PooledConnection> {
        for slot in &self.idle {
            let Some(idle) = slot.take().filter(|it| self.is_usable(it)) else { continue };
            let mut connection = idle.connection;
            let sender = &mut connection.sender;
            // hyper delivers a response before its connection's task has finished with it.
            let ready = sender.is_ready()
                || matches!(tokio::time::timeout(READY_TIMEOUT, sender.ready()).await, Ok(Ok(())));
            if ready {
                return Some(connection);
            }
        }
        None
    }

    /// Puts a connection into the lowest free slot; one too many is closed.
    fn check_in(&self, connection: PooledConnection) {
        self.put(Box::new(IdleConnection { connection, since: Clock::now() }));
    }

    fn put(&self, idle: Box<IdleConnection>) {
        // A swap instead of a test: a slot that is filled meanwhile hands its connection on to the next.
        let mut moving = Some(idle);
        for slot in &self.idle {
            moving = slot.swap(moving);
            if moving.is_none() {
                return;
            }
        }
    }

    /// Closes connections that have been idle for too long, are past their age, or have ended.
    pub(super) fn sweep(&self) {
        for slot in &self.idle {
            let Some(idle) = slot.take().filter(|it| self.is_usable(it)) else { continue };
            // Back to its own slot: the order tells which was used last.
            if let Some(other) = slot.swap(Some(idle)) {
                self.put(other);
            }
        }
    }

    fn is_usable(&self, idle: &IdleConnection) -> bool {
        let (now, config) = (Clock::now(), &self.connector.config);
        !idle.connection.sender.is_closed()
            && now.saturating_duration_since(idle.since) < config.pool_idle_timeout
            && now.saturating_duration_since(idle.connection.made) < config.max_connection_age
    }

    async fn connect(&self) -> Result<PooledConnection, HttpError> {
        let (stream, protocol) = self.connector.connect().await?;
        match protocol {
            HttpProtocol::Http1 => self.handshake(stream).await,
            HttpProtocol::Http2 => Err(HttpError::new(
                HttpErrorKind::ProtocolChanged,
                RequestSentStatus::NotSent,
                format!("{} speaks HTTP/2 now", self.connector.endpoint),
            )),
        }
    }

    async fn handshake(&self, stream: Stream) -> Result<PooledConnection, HttpError> {
        let mut builder = http1::Builder::new();
        // hyper bounds the head by the size of its read buffer.
        builder.max_buf_size(MAX_HEAD_BYTES as usize);
        let (sender, connection) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failure(RequestSentStatus::NotSent, error))?;
        let end = self.end.clone();
        self.connector.config.spawn("http1-connection", async move {
            tokio::select! {
                // The end first: a closed pool moves no more bytes.
                biased;
                () = end.cancelled() => {}
                // The request on the connection gets the error.
                _ = connection => {}
            }
        });
        Ok(PooledConnection { sender, made: Clock::now() })
    }

    fn failure(&self, sent: RequestSentStatus, error: hyper::Error) -> HttpError {
        let sentence = format!("the connection was lost ({})", self.connector.endpoint);
        HttpError::new(self.loss_kind(), sent, sentence).caused_by(error)
    }

    fn loss_kind(&self) -> HttpErrorKind {
        // Acquire: pairs with the Release in `close`.
        match self.is_evicted.load(Ordering::Acquire) {
            true => HttpErrorKind::Evicted,
            false => HttpErrorKind::ConnectionLost,
        }
    }
}

impl Drop for Http1Pool {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
