//! Factories of HTTP clients, and the configuration of a client.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;

#[cfg(feature = "fault-injection")]
use super::HttpFuture;
use super::{HttpClient, InvalidProxy, ProxyConfig};
use crate::exchange::Endpoint;
use crate::options::OptionLayers;
use crate::system::TaskSpawner;

/// Makes clients. Each call gives one with connections of its own, so that a bad one harms no other.
pub trait HttpClientFactory: fmt::Debug + Send + Sync {
    /// A new client for an endpoint. Nothing is connected yet.
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient>;
}

/// Asked before each connection that a client makes.
#[cfg(feature = "fault-injection")]
pub(crate) trait ConnectGate: fmt::Debug + Send + Sync {
    /// Waits until the connection may be made, or says why it must not.
    fn before_connect(&self) -> HttpFuture<'_, ()>;
}

/// The configuration of an HTTP client.
///
/// Data and metadata requests have a configuration each; they differ in their timeouts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpClientConfig {
    /// The longest that a connection may take to be ready, proxy and TLS included.
    pub connect_timeout: Duration,
    /// The age at which a connection gets no more requests.
    pub max_connection_age: Duration,
    /// The longest that one attempt may take, from the stream to the end of the response.
    pub request_timeout: Duration,
    /// The most HTTP/1.1 connections of the client.
    pub pool_max_idle_per_host: usize,
    /// How long an HTTP/1.1 connection may be idle before it is closed.
    pub pool_idle_timeout: Duration,
    /// The proxy that connections go through.
    pub proxy: Option<ProxyConfig>,
    /// The local address that connections start from.
    pub local_address: Option<IpAddr>,
    /// Accepts any certificate of an emulator: on loopback, or among `emulator_hosts`.
    pub accept_invalid_certs: bool,
    /// Roots that are trusted beside the platform's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Roots that are trusted beside the platform's for endpoints of this machine, such as an emulator's.
    pub loopback_roots: Vec<CertificateDer<'static>>,
    /// Which versions of HTTP a connection may speak.
    pub versions: HttpVersions,
    /// The most streams that are opened before the peer has said how many it allows.
    pub initial_max_streams: u32,
    /// How often a silent TCP connection is probed.
    pub tcp_keepalive_interval: Duration,
    /// How often an HTTP/2 connection is pinged.
    pub http2_keep_alive_interval: Duration,
    /// How long a PING may stay unacknowledged before the connection counts as lost.
    pub http2_keep_alive_timeout: Duration,
    /// Hosts beside loopback whose certificates are not checked if `accept_invalid_certs` says so.
    pub emulator_hosts: BTreeSet<String>,
    /// A gate that each connection waits at, so that faults also reach those that a client makes by itself.
    #[cfg(feature = "fault-injection")]
    pub(crate) connect_gate: Option<Arc<dyn ConnectGate>>,
    /// The owner of connections' tasks; `None` if a client is made outside a driver.
    pub(crate) tasks: Option<TaskSpawner>,
}

impl HttpClientConfig {
    /// The configuration of clients for data requests, from the settings.
    ///
    /// # Errors
    ///
    /// [`InvalidProxy`] if the environment names a proxy that cannot be used.
    pub fn data_plane(options: &OptionLayers) -> Result<Self, InvalidProxy> {
        Self::with_environment(options, |name| std::env::var(name).ok())
    }

    /// The configuration of clients for data requests, with the proxy from a lookup of variables.
    fn with_environment(
        options: &OptionLayers,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, InvalidProxy> {
        let connection = options.connection();
        let pool = connection.connection_pool();
        let client = options.client_options();
        let proxy = match client.is_proxy_allowed() {
            true => ProxyConfig::from_lookup(variable)?,
            false => None,
        };
        Ok(Self {
            connect_timeout: connection.connect_timeout(),
            max_connection_age: connection.max_connection_age(),
            request_timeout: connection.request_timeout(),
            pool_max_idle_per_host: pool.max_connections(),
            pool_idle_timeout: pool.idle_timeout(),
            proxy,
            local_address: client.local_address(),
            accept_invalid_certs: client.accept_invalid_certs(),
            extra_roots: Vec::new(),
            loopback_roots: Vec::new(),
            versions: match client.is_http2_allowed() {
                true => HttpVersions::Negotiate,
                false => HttpVersions::Http1Only,
            },
            // Our own limit until the peer's SETTINGS arrive; it is below the service's.
            initial_max_streams: options.sharding().max_streams_per_client().get(),
            tcp_keepalive_interval: client.tcp_keepalive_interval(),
            http2_keep_alive_interval: client.http2_keep_alive_interval(),
            http2_keep_alive_timeout: client.http2_keep_alive_timeout(),
            emulator_hosts: client.emulator_hosts().cloned().unwrap_or_default(),
            #[cfg(feature = "fault-injection")]
            connect_gate: None,
            tasks: None,
        })
    }

    /// The configuration of clients for metadata requests, from the settings.
    ///
    /// # Errors
    ///
    /// [`InvalidProxy`] if the environment names a proxy that cannot be used.
    pub fn metadata(options: &OptionLayers) -> Result<Self, InvalidProxy> {
        let request_timeout = options.connection().metadata_request_timeout();
        Ok(Self { request_timeout, ..Self::data_plane(options)? })
    }
}

impl HttpClientConfig {
    /// Whether any certificate of an endpoint is accepted: the setting says so, and the endpoint is an
    /// emulator's, on this machine or under a name that was given.
    #[must_use]
    pub fn accepts_any_certificate_of(&self, endpoint: &Endpoint) -> bool {
        let is_named =
            || self.emulator_hosts.iter().any(|host| host.eq_ignore_ascii_case(endpoint.host()));
        self.accept_invalid_certs && (endpoint.is_loopback() || is_named())
    }

    /// The roots that are trusted beside the platform's for an endpoint.
    #[must_use]
    pub fn roots_for(&self, endpoint: &Endpoint) -> Vec<CertificateDer<'static>> {
        let local: &[_] = if endpoint.is_loopback() { &self.loopback_roots } else { &[] };
        [&self.extra_roots, local].concat()
    }

    /// Starts the task of a connection, in the hands of the driver's owner where there is one. After its
    /// shutdown nothing is started.
    pub(crate) fn spawn<T>(
        &self,
        name: &'static str,
        task: impl Future<Output = T> + Send + 'static,
    ) {
        let task = async move {
            // What a connection's task returns was told to its requests already.
            let _ = task.await;
        };
        match &self.tasks {
            Some(tasks) => {
                let _ = tasks.spawn(name, task); // Not started: the requests on it fail as not sent.
            }
            None => drop(tokio::spawn(task)), // Detached: it ends with its client.
        }
    }
}

/// Which versions of HTTP a connection may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpVersions {
    /// TLS offers both and the peer chooses (ALPN); in cleartext, without ALPN, HTTP/1.1.
    #[default]
    Negotiate,
    /// HTTP/1.1 alone.
    Http1Only,
    /// HTTP/2 with prior knowledge (RFC 9113, section 3.3), in cleartext and over TLS.
    Http2PriorKnowledge,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The setting turned checks off for every endpoint, an account's included.
    #[test]
    fn the_proxy_of_the_environment_is_used_if_the_settings_allow_it() {
        let proxy = |is_allowed| {
            let mut options = crate::options::CosmosClientOptions::default();
            options.client_options.is_proxy_allowed = Some(is_allowed);
            let layers = OptionLayers::new(Arc::default(), Arc::default(), Arc::new(options));
            let variable = |name: &str| {
                (name == "HTTPS_PROXY").then(|| "http://proxy.contoso.com:3128".to_owned())
            };
            HttpClientConfig::with_environment(&layers, variable).unwrap().proxy
        };
        assert!(proxy(true).is_some());
        assert!(proxy(false).is_none());
    }

    #[test]
    fn any_certificate_is_accepted_of_emulators_alone() {
        let mut config = HttpClientConfig::data_plane(&OptionLayers::default()).unwrap();
        let accepts = |config: &HttpClientConfig, url: &str| {
            config.accepts_any_certificate_of(&url.parse().unwrap())
        };
        assert!(!accepts(&config, "https://localhost:8081"));
        config.accept_invalid_certs = true;
        assert!(accepts(&config, "https://localhost:8081") && accepts(&config, "https://[::1]"));
        assert!(!accepts(&config, "https://contoso.documents.azure.com"));
        assert!(!accepts(&config, "https://emulator:8081"));
        config.emulator_hosts.insert("Emulator".to_owned());
        assert!(accepts(&config, "https://emulator:8081"));
    }
}
