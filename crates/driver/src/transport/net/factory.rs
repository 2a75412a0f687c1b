//! The default factory.

use std::sync::Arc;

use super::client::NetClient;
use super::connector::Connector;
use super::tls_settings::TlsSettings;
use crate::exchange::Endpoint;
use crate::transport::{HttpClient, HttpClientConfig, HttpClientFactory};

/// Makes clients that speak HTTP over TCP and TLS themselves.
///
/// Clients of one factory share what is costly and harmless to share: the roots, and the tickets by which
/// a TLS session is resumed.
#[derive(Default)]
pub struct NetHttpClientFactory {
    tls: Arc<TlsSettings>,
}

impl NetHttpClientFactory {
    /// A factory without clients.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl HttpClientFactory for NetHttpClientFactory {
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient> {
        let connector = Connector {
            endpoint: endpoint.clone(),
            config: Arc::new(config.clone()),
            tls: Arc::clone(&self.tls),
        };
        Arc::new(NetClient::new(connector))
    }
}

impl std::fmt::Debug for NetHttpClientFactory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("NetHttpClientFactory")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::options::OptionLayers;

    /// The configuration of the defaults.
    pub(in crate::transport::net) fn plain_config() -> HttpClientConfig {
        HttpClientConfig::data_plane(&OptionLayers::default()).unwrap()
    }
}
