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
    roots: Vec<CertificateDer<'static>>,
    versions: HttpVersions,
    made: Result<Arc<rustls::ClientConfig>, HttpError>,
}

impl SharedTls {
    fn is_for(
        &self,
        config: &HttpClientConfig,
        roots: &[CertificateDer<'static>],
        accept_invalid_certs: bool,
    ) -> bool {
        self.accept_invalid_certs == accept_invalid_certs
            && self.versions == config.versions
            && self.roots == roots
    }
}

impl NetHttpClientFactory {
    /// A factory without clients.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn tls(
        &self,
        endpoint: &Endpoint,
        config: &HttpClientConfig,
    ) -> Result<Arc<rustls::ClientConfig>, HttpError> {
        let accepts_any = config.accepts_any_certificate_of(endpoint);
        let roots = config.roots_for(endpoint);
        let is_this = |it: &&SharedTls| it.is_for(config, &roots, accepts_any);
        if let Some(shared) = self.tls.load().iter().find(is_this) {
            return shared.made.clone();
        }
        // Here, and so once for each such configuration and not for each connection.
        if accepts_any {
            tracing::warn!(%endpoint, "certificates of emulators are not checked, as the settings say");
        } else if config.accept_invalid_certs {
            tracing::warn!(%endpoint, "certificates are checked although the settings say otherwise: \
                the endpoint is neither this machine nor among the named emulator hosts");
        }
        // Outside `rcu`, whose closure may run several times: reading the roots is slow. Two threads may
        // both make one; the list keeps the first.
        let made = tls::client_config(config.versions, &roots, accepts_any);
        self.tls.rcu(|all| {
            let mut all = Vec::clone(all);
            if !all.iter().any(|shared| shared.is_for(config, &roots, accepts_any)) {
                all.push(SharedTls {
                    accept_invalid_certs: accepts_any,
                    roots: roots.clone(),
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
            tls: self.tls(endpoint, config),
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
