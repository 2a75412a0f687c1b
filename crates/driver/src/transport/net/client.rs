//! One client: whatever its first connection turned out to speak.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::connector::Connector;
use super::http1::Http1Pool;
use super::http2::Http2Connection;
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::exchange::{HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};
use crate::transport::{HttpClient, HttpFuture, HttpRequest, HttpResponse, StreamLimit};

/// A client that speaks HTTP itself.
pub(super) struct NetClient {
    connector: Connector,
    connection: OnceCell<ClientConnection>,
    closed: CancellationToken,
    /// Called when the peer allows more streams.
    limit_raised: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

/// The connections of a client, by the protocol that its first connection negotiated.
enum ClientConnection {
    Http1(Http1Pool),
    Http2(Http2Connection),
}

impl NetClient {
    /// A client that connects when it is first used.
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            connection: OnceCell::new(),
            closed: CancellationToken::new(),
            limit_raised: OnceLock::new(),
        }
    }

    /// The connection. Single-flight: the first caller makes it, later ones wait for it.
    async fn connection(&self) -> Result<&ClientConnection, HttpError> {
        tokio::select! {
            // The closing first: a connection must not be handed out after it.
            biased;
            () = self.closed.cancelled() => Err(self.evicted()),
            connection = self.connection.get_or_try_init(|| self.start()) => connection,
        }
    }

    async fn start(&self) -> Result<ClientConnection, HttpError> {
        let (stream, protocol) = self.connector.connect().await?;
        Ok(match protocol {
            HttpProtocol::Http1 => {
                ClientConnection::Http1(Http1Pool::start(stream, self.connector.clone()).await?)
            }
            HttpProtocol::Http2 => {
                let Connector { endpoint, config, .. } = &self.connector;
                let limit_raised = self.limit_raised.get().cloned();
                ClientConnection::Http2(
                    Http2Connection::start(stream, endpoint, config, limit_raised).await?,
                )
            }
        })
    }

    async fn send(
        &self,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        diagnostics.not_sent_yet();
        let connection = match self.connection.get() {
            Some(connection) => connection,
            None => {
                diagnostics.record(RequestEventKind::Connecting);
                self.connection().await?
            }
        };
        match connection {
            ClientConnection::Http1(pool) => {
                diagnostics.protocol = Some(HttpProtocol::Http1);
                pool.execute(request, diagnostics).await
            }
            ClientConnection::Http2(connection) => {
                diagnostics.protocol = Some(HttpProtocol::Http2);
                connection.execute(request, diagnostics).await
            }
        }
    }

    fn evicted(&self) -> HttpError {
        HttpError::new(
            HttpErrorKind::Evicted,
            RequestSentStatus::NotSent,
            format!("the connection to {} was evicted", self.connector.endpoint),
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
            Ok(Some(match self.connection().await? {
                ClientConnection::Http1(_) => HttpProtocol::Http1,
                ClientConnection::Http2(_) => HttpProtocol::Http2,
            }))
        })
    }

    fn stream_limit(&self) -> StreamLimit {
        match self.connection.get() {
            Some(ClientConnection::Http2(connection)) => connection.limit(),
            Some(ClientConnection::Http1(_)) | None => StreamLimit::Unknown,
        }
    }

    fn on_stream_limit_raised(&self, notify: Arc<dyn Fn() + Send + Sync>) {
        // A client has one pool: the first registration stands.
        let _ = self.limit_raised.set(notify);
    }

    fn sweep(&self) {
        if let Some(ClientConnection::Http1(pool)) = self.connection.get() {
            pool.sweep();
        }
    }

    fn close(&self) {
        // First: a connection that is being made must not be handed out after this.
        self.closed.cancel();
        match self.connection.get() {
            Some(ClientConnection::Http1(pool)) => pool.close(),
            Some(ClientConnection::Http2(connection)) => connection.close(),
            None => {}
        }
    }
}

impl fmt::Debug for NetClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speaks = match self.connection.get() {
            Some(ClientConnection::Http1(_)) => "HTTP/1.1",
            Some(ClientConnection::Http2(_)) => "HTTP/2",
            None => "not connected",
        };
        write!(formatter, "NetClient({}, {speaks})", self.connector.endpoint)
    }
}
