//! Makes one connection: TCP, a tunnel where a proxy is set, TLS where the endpoint is `https`, all within
//! the connect timeout.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::tls_settings::TlsSettings;
use super::{tcp, tls, tunnel};
use crate::exchange::{Endpoint, HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};
use crate::transport::{HttpClientConfig, HttpVersions};

/// Makes connections to one endpoint.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) endpoint: Endpoint,
    pub(super) config: Arc<HttpClientConfig>,
    /// The TLS configuration.
    pub(super) tls: Arc<TlsSettings>,
}

impl Connector {
    /// Makes a connection, and returns it with its version of HTTP.
    ///
    /// One timeout for all steps: a peer that is slow at each of them must not add them up.
    pub(super) async fn connect(&self) -> Result<(Stream, HttpProtocol), HttpError> {
        let limit = self.config.connect_timeout;
        match tokio::time::timeout(limit, self.connect_unbounded()).await {
            Ok(connected) => connected,
            Err(_) => Err(HttpError::new(
                HttpErrorKind::Connect,
                RequestSentStatus::NotSent,
                format!("no connection to {} was ready within {limit:?}", self.endpoint),
            )),
        }
    }

    async fn connect_unbounded(&self) -> Result<(Stream, HttpProtocol), HttpError> {
        #[cfg(feature = "fault-injection")]
        if let Some(gate) = &self.config.connect_gate {
            gate.before_connect().await?;
        }
        let stream = self.reach().await?;
        if !self.endpoint.is_tls() {
            // Without TLS there is no ALPN, and RFC 9113 dropped the h2c upgrade: HTTP/2 needs prior
            // knowledge (section 3.3).
            let protocol = match self.config.versions {
                HttpVersions::Http2PriorKnowledge => HttpProtocol::Http2,
                HttpVersions::Negotiate | HttpVersions::Http1Only => HttpProtocol::Http1,
            };
            return Ok((Either::Left(stream), protocol));
        }
        // The error of a bad configuration, told here where a request can carry it.
        let tls = TlsConnector::from(self.tls.for_connection(&self.endpoint, &self.config)?);
        let name = tls::server_name(&self.endpoint)?;
        let stream =
            tls.connect(name, stream).await.map_err(|error| tls::refused(&self.endpoint, error))?;
        let chosen = tls::chose_http2(stream.get_ref().1.alpn_protocol());
        let protocol = match self.config.versions {
            HttpVersions::Http2PriorKnowledge => HttpProtocol::Http2,
            // A peer that chose nothing speaks HTTP/1.1: ALPN is optional for it (RFC 7301).
            HttpVersions::Negotiate if chosen => HttpProtocol::Http2,
            HttpVersions::Negotiate | HttpVersions::Http1Only => HttpProtocol::Http1,
        };
        Ok((Either::Right(Box::new(stream)), protocol))
    }

    /// A TCP connection to the endpoint, through the proxy where one serves it.
    async fn reach(&self) -> Result<TcpStream, HttpError> {
        let proxy = self.config.proxy.as_ref().filter(|it| it.serves(self.endpoint.host()));
        let Some(proxy) = proxy else {
            return tcp::connect(self.endpoint.host(), self.endpoint.port(), &self.config)
                .await
                .map_err(|error| unreachable(self.endpoint.as_str(), error));
        };
        let stream = tcp::connect(proxy.host(), proxy.port(), &self.config).await;
        let address = || format!("the proxy {}:{}", proxy.host(), proxy.port());
        let stream = stream.map_err(|error| unreachable(&address(), error))?;
        tunnel::open(stream, &self.endpoint, proxy).await
    }
}

fn unreachable(address: &str, error: io::Error) -> HttpError {
    HttpError::new(
        HttpErrorKind::Connect,
        RequestSentStatus::NotSent,
        format!("no connection to {address} could be made"),
    )
    .caused_by(error)
}

/// A connected stream, encrypted or not.
// Boxed: the state of a TLS session is large, and cleartext should not carry it.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
