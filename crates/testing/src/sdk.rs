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

/// Makes clients of the Azure SDK, each as the driver's configuration would have its own.
#[derive(Debug)]
pub struct SdkClients;

impl HttpClientFactory for SdkClients {
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient> {
        let made_with = config.clone();
        let factory = AzureCoreHttpClientFactory::new(move || Arc::new(client(&made_with)));
        factory.create(endpoint, config)
    }
}

/// A client of the Azure SDK for cleartext peers: it trusts no certificate.
///
/// It names no type of the driver, so the driver's unit tests can use it too.
#[must_use]
pub fn cleartext_client() -> Arc<dyn azure_core::http::HttpClient> {
    let client = builder(trusting(RootCertStore::empty()));
    Arc::new(client.build().unwrap())
}

fn builder(tls: ClientConfig) -> reqwest::ClientBuilder {
    // Without the proxies of the machine that runs the tests.
    reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls)
}

fn client(config: &HttpClientConfig) -> reqwest::Client {
    let client = builder(tls(config)).connect_timeout(config.connect_timeout);
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
    let mut tls = trusting(roots);
    tls.alpn_protocols = match config.versions {
        HttpVersions::Negotiate => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        HttpVersions::Http1Only => vec![b"http/1.1".to_vec()],
        HttpVersions::Http2PriorKnowledge => vec![b"h2".to_vec()],
    };
    tls
}

fn trusting(roots: RootCertStore) -> ClientConfig {
    // The provider is passed, never installed for the process: tests must not lend one to the driver.
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
