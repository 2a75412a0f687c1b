//! The default factory.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;

use super::client::NetClient;
use super::connector::Connector;
use super::tls;
use crate::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpError, HttpVersions,
};

/// Makes clients that speak HTTP over TCP and TLS themselves.
///
/// Clients of one factory share what is costly and harmless to share: the roots, and the tickets by which
/// a TLS session is resumed.
#[derive(Default)]
pub struct NetHttpClientFactory {
    tls: ArcSwap<Vec<SharedTls>>,
}

/// Settings of TLS, by what they were made from.
#[derive(Clone)]
struct SharedTls {
    accept_invalid_certs: bool,
    extra_roots: Vec<CertificateDer<'static>>,
    versions: HttpVersions,
    made: Result<Arc<rustls::ClientConfig>, HttpError>,
}

impl SharedTls {
    fn is_for(&self, config: &HttpClientConfig) -> bool {
        self.accept_invalid_certs == config.accept_invalid_certs
            && self.versions == config.versions
            && self.extra_roots == config.extra_roots
    }
}

impl NetHttpClientFactory {
    /// A factory without clients.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn tls(&self, config: &HttpClientConfig) -> Result<Arc<rustls::ClientConfig>, HttpError> {
        if let Some(shared) = self.tls.load().iter().find(|shared| shared.is_for(config)) {
            return shared.made.clone();
        }
        // Outside `rcu`, whose closure may run several times: reading the roots is slow. Two threads may
        // both make one; the list keeps the first.
        let made = tls::client_config(config);
        self.tls.rcu(|all| {
            let mut all = Vec::clone(all);
            if !all.iter().any(|shared| shared.is_for(config)) {
                all.push(SharedTls {
                    accept_invalid_certs: config.accept_invalid_certs,
                    extra_roots: config.extra_roots.clone(),
                    versions: config.versions,
                    made: made.clone(),
                });
            }
            all
        });
        made
    }
}

impl HttpClientFactory for NetHttpClientFactory {
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient> {
        let connector = Connector {
            endpoint: endpoint.clone(),
            config: Arc::new(config.clone()),
            tls: self.tls(config),
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
    use crate::options::OptionLayers;
    use crate::transport::HttpClientConfig;

    /// The configuration of the defaults.
    pub(in crate::transport::net) fn plain_config() -> HttpClientConfig {
        HttpClientConfig::data_plane(&OptionLayers::default()).unwrap()
    }
}
