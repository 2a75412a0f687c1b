//! One HTTP/2 connection: streams, the peer's limit on them, keep-alive pings, GOAWAY.
//!
//! `h2` is used directly rather than through hyper: the peer's limit is readable, a request costs no
//! task of its own, and an error tells a refused stream from a lost one.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::client::{Connection, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connector::Stream;
use super::limits::{MAX_HEAD_BYTES, MAX_RESPONSE_BYTES};
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::exchange::{Endpoint, HttpError, HttpErrorKind, RequestSentStatus};
use crate::transport::count_guard::CountGuard;
use crate::transport::{HttpClientConfig, HttpRequest, HttpResponse, StreamLimit};

/// The flow-control window of one stream: a page of the service (a few megabytes at most) arrives in one or
/// two round trips.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;

/// The flow-control window of the connection: eight full streams. It bounds what a connection buffers.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// How long an unused connection may take to send GOAWAY and close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a pong that is overdue may still be in the socket, unread: a few turns of the I/O driver.
const PONG_GRACE: Duration = Duration::from_millis(20);

/// A connection that takes requests.
pub(super) struct Http2Connection {
    sender: SendRequest<Bytes>,
    state: Arc<ConnectionState>,
    /// Ends the connection's task.
    closed: CancellationToken,
    /// Cancels the token of the connection's task when the last user of the connection is gone.
    _unused: DropGuard,
}

/// The state that the connection's task shares with the requests on it.
struct ConnectionState {
    endpoint: Endpoint,
    /// The streams that the peer allows now.
    limit: AtomicU32,
    /// The requests on the connection.
    in_flight: AtomicU32,
    end: AtomicU8,
    /// Called when the peer allows more streams than before.
    limit_raised: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// Why a connection ended, where the error of a stream cannot tell.
mod end {
    // Numbers, because they are kept in an `AtomicU8`: the first reason wins (`mark_going_away`).
    pub(super) const OPEN: u8 = 0;
    pub(super) const EVICTED: u8 = 1;
    pub(super) const NO_PONG: u8 = 2;
    pub(super) const GOING_AWAY: u8 = 3;
}

impl Http2Connection {
    /// Starts HTTP/2 on a stream. The connection lives until it is dropped and its streams have ended.
    pub(super) async fn start(
        stream: Stream,
        endpoint: &Endpoint,
        config: &HttpClientConfig,
        limit_raised: Option<Arc<dyn Fn() + Send + Sync>>,
    ) -> Result<Self, HttpError> {
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // Until the peer's SETTINGS arrive, h2 would open 100 streams; the service allows 20 and
            // refuses the rest.
            .initial_max_send_streams(config.initial_max_streams as usize)
            .max_header_list_size(MAX_HEAD_BYTES)
            // RFC 9113, section 8.4: a client need not take pushed streams, and they are not read here.
            .enable_push(false);
        let (sender, mut connection) = builder.handshake(stream).await.map_err(|error| {
            let sentence = format!("{endpoint} does not speak HTTP/2");
            HttpError::new(HttpErrorKind::Connect, RequestSentStatus::NotSent, sentence)
                .caused_by(error)
        })?;
        let state = Arc::new(ConnectionState {
            endpoint: endpoint.clone(),
            limit: AtomicU32::new(config.initial_max_streams),
            in_flight: AtomicU32::new(0),
            end: AtomicU8::new(end::OPEN),
            limit_raised,
        });
        let unused = CancellationToken::new();
        let pings = connection.ping_pong();
        let keep_alive = KeepAlive {
            interval: config.http2_keep_alive_interval,
            timeout: config.http2_keep_alive_timeout,
        };
        let probe = GoAwayProbe { sender: Some(sender.clone()), unused: unused.clone() };
        let closed = CancellationToken::new();
        let driving = drive(connection, probe, pings, keep_alive, Arc::clone(&state));
        // `None`, dropped unpolled, once the driver is shut down: the streams then fail as not sent.
        config.spawn("http2-connection", closed.clone().run_until_cancelled_owned(driving));
        Ok(Self { sender, state, closed, _unused: unused.drop_guard() })
    }

    /// The streams that the peer allows now.
    pub(super) fn limit(&self) -> StreamLimit {
        // Acquire: pairs with the Release that ended the connection or changed the limit.
        match self.state.end.load(Ordering::Acquire) {
            end::OPEN => StreamLimit::Known(self.state.limit.load(Ordering::Acquire)),
            _ => StreamLimit::Closed,
        }
    }

    /// Ends the connection and every stream on it.
    pub(super) fn close(&self) {
        // Before the end: streams that fail by it read why (Release, pairs with `classify`).
        self.state.end.store(end::EVICTED, Ordering::Release);
        self.closed.cancel();
    }

    /// Sends a request and waits for its whole response.
    pub(super) async fn execute(
        &self,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        let _in_flight = CountGuard::new(&self.state.in_flight);
        let (mut head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        if !body.is_empty() || has_content(&head.method) {
            // The length is known, so it is sent (RFC 9110, section 8.6): some gateways refuse a body of
            // unknown length (411), and a truncated one is recognised.
            head.headers.insert(CONTENT_LENGTH, body.len().into());
        }
        let mut sender = self.sender.clone();
        let unsent = |error| self.state.failure(error, RequestSentStatus::NotSent);
        // The pool reserved a stream below the peer's limit, so this waits only if the limit fell since.
        poll_fn(|context| sender.poll_ready(context)).await.map_err(unsent)?;
        let request = http::Request::from_parts(head, ());
        let (answer, mut stream) = sender.send_request(request, body.is_empty()).map_err(unsent)?;
        diagnostics.sent();
        if !body.is_empty() {
            // The whole body is in memory already; h2 sends it as the peer's window allows.
            // HEADERS are queued already, so a failure here is ambiguous.
            let lost = |error| self.state.failure(error, RequestSentStatus::MaybeSent);
            stream.send_data(body, true).map_err(lost)?;
        }
        let answer = answer.await.map_err(|error| {
            let failure = self.state.failure(error, RequestSentStatus::MaybeSent);
            diagnostics.request_sent = failure.request_sent();
            failure
        })?;
        diagnostics.record(RequestEventKind::ResponseHeadersReceived);
        let (head, mut stream) = answer.into_parts();
        // A response to HEAD has no content, whatever its content-length says (RFC 9110, section 9.3.2).
        let body = match is_head {
            true => Bytes::new(),
            false => self.read_body(&head.headers, &mut stream).await?,
        };
        Ok(http::Response::from_parts(head, body))
    }

    /// Reads a response's body; one that arrives in one piece is not copied.
    async fn read_body(
        &self,
        headers: &HeaderMap,
        stream: &mut RecvStream,
    ) -> Result<Bytes, HttpError> {
        let Some(first) = self.read_piece(stream).await? else { return Ok(Bytes::new()) };
        if stream.is_end_stream() {
            return Ok(first);
        }
        // One allocation for a body whose length the headers tell.
        let mut body = BytesMut::with_capacity(expected_length(headers).max(first.len()));
        body.extend_from_slice(&first);
        while let Some(piece) = self.read_piece(stream).await? {
            if body.len() + piece.len() > MAX_RESPONSE_BYTES {
                return Err(self.state.too_long());
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    async fn read_piece(&self, stream: &mut RecvStream) -> Result<Option<Bytes>, HttpError> {
        let lost = |error| {
            // A response had begun, so the request was processed, whatever a GOAWAY or reset says now.
            let failure = self.state.failure(error, RequestSentStatus::MaybeSent);
            HttpError::new(failure.kind(), RequestSentStatus::MaybeSent, failure.chain())
        };
        let Some(piece) = stream.data().await.transpose().map_err(lost)? else { return Ok(None) };
        // Flow control (RFC 9113, section 5.2): h2 sends WINDOW_UPDATE for what is released, and the peer
        // would stall without it.
        stream.flow_control().release_capacity(piece.len()).map_err(lost)?;
        Ok(Some(piece))
    }
}

/// Whether a request of a method is expected to have content, be it empty.
fn has_content(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// The buffer to reserve. A content-length above the limit is not believed: the peer could make us
/// allocate anything.
fn expected_length(headers: &HeaderMap) -> usize {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.filter(|length: &usize| *length <= MAX_RESPONSE_BYTES).unwrap_or_default()
}

impl ConnectionState {
    /// Translates an error of `h2` for a request that got this far.
    fn failure(&self, error: h2::Error, sent: RequestSentStatus) -> HttpError {
        let (kind, not_processed, sentence) = self.classify(&error);
        if matches!(kind, HttpErrorKind::GoneAway | HttpErrorKind::ConnectionLost) {
            // So that the next request is not sent here only to fail.
            self.mark_going_away();
        }
        let sent = match (sent, not_processed) {
            (RequestSentStatus::MaybeSent, true) => RequestSentStatus::NotProcessed,
            (sent, _) => sent,
        };
        HttpError::new(kind, sent, format!("{sentence} ({})", self.endpoint)).caused_by(error)
    }

    /// Takes over the peer's SETTINGS_MAX_CONCURRENT_STREAMS.
    fn set_limit(&self, streams: u32) {
        // Release: the callback serves waiters that read the new limit (Acquire in `limit`).
        let before = self.limit.swap(streams, Ordering::AcqRel);
        if let Some(notify) = self.limit_raised.as_ref().filter(|_| streams > before) {
            notify();
        }
    }

    fn mark_going_away(&self) {
        // Compare-and-swap: a reason that is known already (evicted, no pong) stays. AcqRel as above;
        // Relaxed on failure, where nothing is read.
        let _ = self.end.compare_exchange(
            end::OPEN,
            end::GOING_AWAY,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// The kind of an error, whether it says that the request was not processed, and a sentence.
    fn classify(&self, error: &h2::Error) -> (HttpErrorKind, bool, &'static str) {
        match self.end.load(Ordering::Acquire) {
            end::EVICTED => {
                return (HttpErrorKind::Evicted, false, "the connection was evicted");
            }
            end::NO_PONG => {
                return (HttpErrorKind::ConnectionLost, false, "a keep-alive ping got no answer");
            }
            _ => {}
        }
        // What the peer sent as a frame; h2 also makes such errors itself when it finds a violation.
        let is_from_peer = error.is_remote() && (error.is_go_away() || error.is_reset());
        match error.reason() {
            Some(Reason::HTTP_1_1_REQUIRED) if is_from_peer => {
                (HttpErrorKind::ProtocolChanged, true, "the peer requires HTTP/1.1")
            }
            // RFC 9113, section 8.7: REFUSED_STREAM guarantees that nothing was processed.
            Some(Reason::REFUSED_STREAM) if is_from_peer => {
                (HttpErrorKind::StreamRefused, true, "the peer refused the stream")
            }
            // RFC 9113, section 6.8: h2 fails with GOAWAY only streams above the last one that the peer
            // processed, so none of them was.
            _ if is_from_peer && error.is_go_away() => {
                (HttpErrorKind::GoneAway, true, "the peer is closing the connection (GOAWAY)")
            }
            _ if is_from_peer => (HttpErrorKind::StreamReset, false, "the peer reset the stream"),
            _ if error.is_io() => (HttpErrorKind::ConnectionLost, false, "the connection was lost"),
            _ => (HttpErrorKind::Protocol, false, "the peer broke the rules of HTTP/2"),
        }
    }

    fn too_long(&self) -> HttpError {
        HttpError::new(
            HttpErrorKind::ResponseTooLarge,
            RequestSentStatus::MaybeSent,
            format!("the answer of {} is longer than {MAX_RESPONSE_BYTES} bytes", self.endpoint),
        )
    }
}

/// Notices GOAWAY without a request: h2 reports it to a sender that is polled, and otherwise only to the
/// next request, which would fail by it.
struct GoAwayProbe {
    sender: Option<SendRequest<Bytes>>,
    unused: CancellationToken,
}

impl GoAwayProbe {
    fn is_refused(&mut self, context: &mut Context<'_>) -> bool {
        if self.unused.is_cancelled() {
            // h2 keeps a connection open while a sender lives.
            self.sender = None;
        }
        let Some(sender) = &mut self.sender else { return false };
        let is_refused = matches!(sender.poll_ready(context), Poll::Ready(Err(_)));
        if is_refused {
            self.sender = None;
        }
        is_refused
    }
}

/// When to ping, and how long to wait for the acknowledgement.
struct KeepAlive {
    interval: Duration,
    timeout: Duration,
}

/// Drives a connection: moves frames until it ends, hangs, or its last user is gone.
async fn drive(
    mut connection: Connection<Stream, Bytes>,
    mut probe: GoAwayProbe,
    pings: Option<PingPong>,
    keep_alive: KeepAlive,
    state: Arc<ConnectionState>,
) {
    let unused = probe.unused.clone();
    // Write coalescing: a response wakes this task and the requests that wait for it. Yielding once lets
    // those run first, and what they send leaves in one write instead of one each.
    let mut has_yielded = false;
    let frames = poll_fn(|context| {
        // Relaxed: a hint. With one request there is nothing to coalesce, only latency to lose.
        let has_others = state.in_flight.load(Ordering::Relaxed) > 1;
        if has_others && !std::mem::replace(&mut has_yielded, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        has_yielded = false;
        let ended = Pin::new(&mut connection).poll(context);
        let allowed = u32::try_from(connection.max_concurrent_send_streams()).unwrap_or(u32::MAX);
        state.set_limit(allowed);
        if probe.is_refused(context) {
            state.mark_going_away();
        }
        ended
    });
    tokio::select! {
        // The frames first: what is in the socket counts before a timer that fired with it.
        biased;
        ended = frames => {
            if let Err(error) = ended {
                tracing::debug!(endpoint = %state.endpoint, %error, "HTTP/2 connection ended");
            }
        }
        () = missing_pong(pings, keep_alive) => {
            // Before the connection is dropped: streams that fail by it read why (Release).
            state.end.store(end::NO_PONG, Ordering::Release);
            tracing::debug!(endpoint = %state.endpoint, "HTTP/2 keep-alive ping timed out");
        }
        () = async { unused.cancelled().await; tokio::time::sleep(CLOSE_TIMEOUT).await } => {}
    }
    state.mark_going_away();
}

/// Pings at the interval; returns when an acknowledgement does not come in time.
async fn missing_pong(pings: Option<PingPong>, keep_alive: KeepAlive) {
    // h2 hands it out once per connection, to us.
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tokio::time::sleep(keep_alive.interval).await;
        let mut pong = std::pin::pin!(pings.ping(Ping::opaque()));
        let acknowledged = match tokio::time::timeout(keep_alive.timeout, pong.as_mut()).await {
            Ok(acknowledged) => Ok(acknowledged),
            // After a pause of the process (a suspended machine, a starved container) the timer is due before
            // the socket was looked at. Another timer needs another turn of the I/O driver, and a pong that
            // had arrived is read by then.
            Err(_) => tokio::time::timeout(PONG_GRACE, pong).await,
        };
        match acknowledged {
            Ok(Ok(_)) => {}
            // The connection is ending; its own future tells how.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
