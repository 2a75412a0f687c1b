//! Where clients come from, and what each is made with.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;

use super::{Endpoint, HttpClient, ProxyConfig};

/// Makes clients. Each call gives one with connections of its own, so that a bad one harms no other.
pub trait HttpClientFactory: fmt::Debug + Send + Sync {
    /// A new client for an endpoint. Nothing is connected yet.
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient>;
}

/// What a client is made with.
///
/// Data and metadata requests have a configuration each; they differ in their timeouts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpClientConfig {
    /// The longest that a connection may take to be ready, proxy and TLS included.
    pub connect_timeout: Duration,
    /// The longest that one attempt may take, from the wait for a stream to the end of the answer.
    pub request_timeout: Duration,
    /// The most HTTP/1.1 connections of the client.
    pub pool_max_idle_per_host: usize,
    /// How long an HTTP/1.1 connection may lie unused before it is closed.
    pub pool_idle_timeout: Duration,
    /// The proxy that connections go through.
    pub proxy: Option<ProxyConfig>,
    /// The local address that connections start from.
    pub local_address: Option<IpAddr>,
    /// Accepts any certificate. For an emulator with a certificate of its own, never for an account.
    pub accept_invalid_certs: bool,
    /// Roots that are trusted beside the platform's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Which versions of HTTP a connection may speak.
    pub versions: HttpVersions,
    /// The most streams that are opened before the peer has said how many it allows.
    pub initial_max_streams: u32,
    /// How often a silent TCP connection is probed.
    pub tcp_keepalive_interval: Duration,
    /// How often an HTTP/2 connection is pinged.
    pub http2_keep_alive_interval: Duration,
    /// How long a ping may stay without an answer before the connection counts as lost.
    pub http2_keep_alive_timeout: Duration,
}

/// Which versions of HTTP a connection may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpVersions {
    /// TLS offers both and the peer chooses (ALPN); in cleartext, where nobody can choose, HTTP/1.1.
    #[default]
    Negotiate,
    /// HTTP/1.1 alone.
    Http1Only,
    /// HTTP/2 without asking, in cleartext and over TLS.
    Http2PriorKnowledge,
}
