//! One client: whatever its first connection turned out to speak.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::connector::Connector;
use super::http1::Http1Pool;
use super::http2::Http2Connection;
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::transport::{
    HttpClient, HttpError, HttpErrorKind, HttpFuture, HttpProtocol, HttpRequest, HttpResponse,
    RequestSentStatus, StreamLimit,
};

/// A client that speaks HTTP itself.
pub(super) struct NetClient {
    connector: Connector,
    wire: OnceCell<Wire>,
    closed: CancellationToken,
    /// Who wants to know that the peer allows more streams.
    takes_more: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

enum Wire {
    Http1(Http1Pool),
    Http2(Http2Connection),
}

impl NetClient {
    /// A client that connects when it is first used.
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            wire: OnceCell::new(),
            closed: CancellationToken::new(),
            takes_more: OnceLock::new(),
        }
    }

    /// The connection, made by the first who asks; those who come meanwhile wait for it.
    async fn wire(&self) -> Result<&Wire, HttpError> {
        tokio::select! {
            wire = self.wire.get_or_try_init(|| self.start()) => wire,
            () = self.closed.cancelled() => Err(self.given_up()),
        }
    }

    async fn start(&self) -> Result<Wire, HttpError> {
        let (stream, protocol) = self.connector.connect().await?;
        Ok(match protocol {
            HttpProtocol::Http1 => {
                Wire::Http1(Http1Pool::start(stream, self.connector.clone()).await?)
            }
            HttpProtocol::Http2 => {
                let Connector { endpoint, config, .. } = &self.connector;
                let takes_more = self.takes_more.get().cloned();
                Wire::Http2(Http2Connection::start(stream, endpoint, config, takes_more).await?)
            }
        })
    }

    async fn send(
        &self,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        let wire = match self.wire.get() {
            Some(wire) => wire,
            None => {
                diagnostics.record(RequestEventKind::Connecting);
                self.wire().await?
            }
        };
        match wire {
            Wire::Http1(pool) => {
                diagnostics.protocol = Some(HttpProtocol::Http1);
                pool.execute(request, diagnostics).await
            }
            Wire::Http2(connection) => {
                diagnostics.protocol = Some(HttpProtocol::Http2);
                connection.execute(request, diagnostics).await
            }
        }
    }

    fn given_up(&self) -> HttpError {
        HttpError::new(
            HttpErrorKind::Evicted,
            RequestSentStatus::NotSent,
            format!("the connection to {} was given up", self.connector.endpoint),
        )
    }
}

impl HttpClient for NetClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        Box::pin(self.send(request, diagnostics))
    }

    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        Box::pin(async {
            Ok(Some(match self.wire().await? {
                Wire::Http1(_) => HttpProtocol::Http1,
                Wire::Http2(_) => HttpProtocol::Http2,
            }))
        })
    }

    fn stream_limit(&self) -> StreamLimit {
        match self.wire.get() {
            Some(Wire::Http2(connection)) => connection.limit(),
            Some(Wire::Http1(_)) | None => StreamLimit::Unknown,
        }
    }

    fn when_it_takes_more(&self, tell: Arc<dyn Fn() + Send + Sync>) {
        // A client has one pool; who asks first is told.
        let _ = self.takes_more.set(tell);
    }

    fn sweep(&self) {
        if let Some(Wire::Http1(pool)) = self.wire.get() {
            pool.sweep();
        }
    }

    fn close(&self) {
        self.closed.cancel();
        match self.wire.get() {
            Some(Wire::Http1(pool)) => pool.close(),
            Some(Wire::Http2(connection)) => connection.close(),
            None => {}
        }
    }
}

impl fmt::Debug for NetClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speaks = match self.wire.get() {
            Some(Wire::Http1(_)) => "HTTP/1.1",
            Some(Wire::Http2(_)) => "HTTP/2",
            None => "not connected",
        };
        write!(formatter, "NetClient({}, {speaks})", self.connector.endpoint)
    }
}
