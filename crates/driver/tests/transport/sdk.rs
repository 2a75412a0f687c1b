//! Clients of the Azure SDK as a user would bring them: those of `reqwest`, behind the driver's adapter.
//!
//! Of the driver's configuration such a client learns nothing. So each is made here as the test's
//! configuration would have it: its versions of HTTP, its roots, its time to connect.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use sidereal_driver::transport::{
    AzureCoreHttpClientFactory, Endpoint, HttpClient, HttpClientConfig, HttpClientFactory,
    HttpVersions,
};

#[derive(Debug)]
pub(crate) struct SdkClients;

impl HttpClientFactory for SdkClients {
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient> {
        let made_with = config.clone();
        let factory = AzureCoreHttpClientFactory::new(move || Arc::new(client(&made_with)));
        factory.create(endpoint, config)
    }
}

fn client(config: &HttpClientConfig) -> reqwest::Client {
    let client = reqwest::Client::builder()
        // Proxies of the machine that runs the tests are none of their business.
        .no_proxy()
        .connect_timeout(config.connect_timeout)
        .tls_backend_preconfigured(tls(config));
    let client = match config.versions {
        HttpVersions::Negotiate => client,
        HttpVersions::Http1Only => client.http1_only(),
        HttpVersions::Http2PriorKnowledge => client.http2_prior_knowledge(),
    };
    client.build().unwrap()
}

fn tls(config: &HttpClientConfig) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    config.extra_roots.iter().for_each(|root| roots.add(root.clone()).unwrap());
    let provider = Arc::new(ring::default_provider());
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = match config.versions {
        HttpVersions::Negotiate => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        HttpVersions::Http1Only => vec![b"http/1.1".to_vec()],
        HttpVersions::Http2PriorKnowledge => vec![b"h2".to_vec()],
    };
    tls
}
