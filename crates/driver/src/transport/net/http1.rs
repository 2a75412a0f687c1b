//! HTTP/1.1: a pool of connections, one request at a time on each.
//!
//! Connections that rest are kept in numbered places, the lowest free one first, so that a trickle of
//! requests uses the same few and the others grow old. Places are swapped whole: there is no lock.

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
use super::{MAX_ANSWER_BYTES, MAX_HEAD_BYTES};
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::transport::{
    HttpError, HttpErrorKind, HttpProtocol, HttpRequest, HttpResponse, RequestSentStatus,
};

/// How long a connection that has given its answer may take to be ready for the next request. It is ready
/// at once, unless the peer answered before it had read the whole request and reads no further.
const READY_WAIT: Duration = Duration::from_millis(100);

/// A pool of HTTP/1.1 connections to one endpoint.
pub(super) struct Http1Pool {
    connector: Connector,
    host: HeaderValue,
    resting: Box<[AtomicCell<Option<Box<Resting>>>]>,
    given_up: AtomicBool,
    /// Ends the connections when the pool is closed or dropped.
    end: CancellationToken,
}

struct Resting {
    sender: Sender,
    since: Instant,
}

type Sender = SendRequest<Full<Bytes>>;

impl Http1Pool {
    /// A pool whose first connection is made already.
    pub(super) async fn start(stream: Stream, connector: Connector) -> Result<Self, HttpError> {
        let places = connector.config.pool_max_idle_per_host.max(1);
        let host = HeaderValue::from_str(connector.endpoint.authority().as_str())
            .expect("an authority is a header value");
        let pool = Self {
            connector,
            host,
            resting: (0..places).map(|_| AtomicCell::new(None)).collect(),
            given_up: AtomicBool::new(false),
            end: CancellationToken::new(),
        };
        let sender = pool.handshake(stream).await?;
        pool.rest(sender);
        Ok(pool)
    }

    /// Ends all connections and the requests on them.
    pub(super) fn close(&self) {
        self.given_up.store(true, Ordering::Release);
        self.end.cancel();
    }

    /// Sends a request and waits for its whole answer.
    pub(super) async fn execute(
        &self,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        let mut request = self.in_origin_form(request);
        loop {
            let (mut sender, is_new) = match self.wake().await {
                Some(sender) => (sender, false),
                None => {
                    diagnostics.record(RequestEventKind::Connecting);
                    (self.connect().await?, true)
                }
            };
            diagnostics.sent();
            match sender.try_send_request(request).await {
                Ok(answer) => {
                    diagnostics.record(RequestEventKind::ResponseHeadersReceived);
                    let answer = self.read(answer).await?;
                    self.rest(sender);
                    return Ok(answer);
                }
                Err(mut refused) => {
                    let back = refused.take_message();
                    let sent = match back {
                        Some(_) => RequestSentStatus::NotSent,
                        None => RequestSentStatus::MaybeSent,
                    };
                    diagnostics.request_sent = sent;
                    match back {
                        // The connection had ended while it rested; the next may not have.
                        Some(unsent) if !is_new => request = unsent,
                        _ => return Err(self.failure(sent, refused.into_error())),
                    }
                }
            }
        }
    }

    /// HTTP/1.1 wants the path in the request line and the host in a header.
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
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(|error| {
            let endpoint = &self.connector.endpoint;
            let (kind, sentence) = match error.is::<LengthLimitError>() {
                true => (
                    HttpErrorKind::AnswerTooLong,
                    format!("the answer of {endpoint} is longer than {MAX_ANSWER_BYTES} bytes"),
                ),
                false => (
                    self.lost(),
                    format!("the connection was lost in the middle of the answer ({endpoint})"),
                ),
            };
            HttpError::new(kind, RequestSentStatus::MaybeSent, format!("{sentence}: {error}"))
        })?;
        Ok(http::Response::from_parts(head, body.to_bytes()))
    }

    /// A connection that rests and is still good.
    async fn wake(&self) -> Option<Sender> {
        let limit = self.connector.config.pool_idle_timeout;
        for place in &self.resting {
            let Some(resting) = place.take().filter(|it| it.is_good(limit)) else { continue };
            let mut sender = resting.sender;
            // The answer can be here before its connection's task has put everything in order.
            let ready = sender.is_ready()
                || matches!(tokio::time::timeout(READY_WAIT, sender.ready()).await, Ok(Ok(())));
            if ready {
                return Some(sender);
            }
        }
        None
    }

    /// Puts a connection into the lowest free place; one too many is closed.
    fn rest(&self, sender: Sender) {
        self.put(Box::new(Resting { sender, since: Instant::now() }));
    }

    fn put(&self, resting: Box<Resting>) {
        let mut moving = Some(resting);
        for place in &self.resting {
            moving = place.swap(moving);
            if moving.is_none() {
                return;
            }
        }
    }

    /// Closes connections that have rested for too long or have ended.
    pub(super) fn sweep(&self) {
        let limit = self.connector.config.pool_idle_timeout;
        for place in &self.resting {
            let Some(resting) = place.take().filter(|it| it.is_good(limit)) else { continue };
            // Back to its own place: the order tells who was used last.
            if let Some(other) = place.swap(Some(resting)) {
                self.put(other);
            }
        }
    }

    async fn connect(&self) -> Result<Sender, HttpError> {
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

    async fn handshake(&self, stream: Stream) -> Result<Sender, HttpError> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES as usize);
        let (sender, connection) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failure(RequestSentStatus::NotSent, error))?;
        let end = self.end.clone();
        tokio::spawn(async move {
            tokio::select! {
                // What went wrong is told to the request that was on the connection.
                _ = connection => {}
                () = end.cancelled() => {}
            }
        });
        Ok(sender)
    }

    fn failure(&self, sent: RequestSentStatus, error: hyper::Error) -> HttpError {
        let sentence = format!("the connection was lost ({})", self.connector.endpoint);
        HttpError::new(self.lost(), sent, sentence).caused_by(error)
    }

    fn lost(&self) -> HttpErrorKind {
        match self.given_up.load(Ordering::Acquire) {
            true => HttpErrorKind::Evicted,
            false => HttpErrorKind::ConnectionLost,
        }
    }
}

impl Resting {
    fn is_good(&self, limit: Duration) -> bool {
        !self.sender.is_closed() && self.since.elapsed() < limit
    }
}

impl Drop for Http1Pool {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
