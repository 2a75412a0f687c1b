//! Building a client: endpoint, credential, options, runtime, trusted roots.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sidereal_driver::options::CosmosClientOptions;
use sidereal_driver::transport::Endpoint;
use sidereal_driver::{CosmosDriver, CosmosDriverRuntime, CosmosDriverRuntimeBuilder};

use super::CosmosClient;
use super::cosmos_client::configuration;
use crate::{CosmosCredential, Error, Result};

/// Builds a [`CosmosClient`]: see [`CosmosClient::builder`].
///
/// ```no_run
/// use sidereal::driver::CosmosDriverRuntime;
/// use sidereal::prelude::*;
///
/// # async fn connect(key: CosmosCredential) -> Result<(), Box<dyn std::error::Error>> {
/// // Clients of several accounts share connections and defaults.
/// let runtime = CosmosDriverRuntime::builder().build()?;
/// let client = CosmosClient::builder("https://contoso.documents.azure.com/", key)
///     .runtime(runtime)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct CosmosClientBuilder {
    endpoint: String,
    credential: CosmosCredential,
    options: CosmosClientOptions,
    runtime: Option<Arc<CosmosDriverRuntime>>,
    roots: Vec<CertificateDer<'static>>,
    loopback_roots: Vec<CertificateDer<'static>>,
    /// The telemetry providers of the client's own runtime.
    #[cfg(feature = "otel")]
    telemetry: Option<CosmosDriverRuntimeBuilder>,
}

impl CosmosClientBuilder {
    pub(super) fn new(endpoint: String, credential: CosmosCredential) -> Self {
        Self {
            endpoint,
            credential,
            options: CosmosClientOptions::default(),
            runtime: None,
            roots: Vec::new(),
            loopback_roots: Vec::new(),
            #[cfg(feature = "otel")]
            telemetry: None,
        }
    }

    /// The settings of this client.
    pub fn options(mut self, options: CosmosClientOptions) -> Self {
        self.options = options;
        self
    }

    /// A runtime that is shared with other clients, instead of one of its own: connections, background tasks,
    /// defaults.
    pub fn runtime(mut self, runtime: Arc<CosmosDriverRuntime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Trusts the certificates of a PEM text beside the platform's roots.
    ///
    /// ```no_run
    /// # async fn example(key: sidereal::CosmosCredential) -> sidereal::Result<()> {
    /// let pem = std::fs::read("our-root.pem").unwrap_or_default();
    /// let builder = sidereal::CosmosClient::builder("https://cosmos.example/", key);
    /// let client = builder.trust_pem(&pem)?.build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the text holds no certificate, or a malformed one.
    pub fn trust_pem(mut self, pem: &[u8]) -> Result<Self> {
        self.roots.extend(certificates(pem)?);
        Ok(self)
    }

    /// Trusts the certificates of a PEM file beside the platform's roots.
    ///
    /// ```no_run
    /// # async fn example(key: sidereal::CosmosCredential) -> sidereal::Result<()> {
    /// let builder = sidereal::CosmosClient::builder("https://cosmos.example/", key);
    /// let client = builder.trust_pem_file("our-root.pem")?.build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the file cannot be read, and the errors of
    /// [`trust_pem`](Self::trust_pem).
    pub fn trust_pem_file(self, path: impl AsRef<Path>) -> Result<Self> {
        self.trust_pem(&read(path.as_ref())?)
    }

    /// Trusts the certificates of a PEM text, for addresses of this machine alone.
    ///
    /// ```no_run
    /// # async fn example(key: sidereal::CosmosCredential) -> sidereal::Result<()> {
    /// let pem = std::fs::read("certificate.pem").unwrap_or_default();
    /// let builder = sidereal::CosmosClient::builder("https://localhost:8081/", key);
    /// let client = builder.trust_pem_on_loopback(&pem)?.build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`trust_pem`](Self::trust_pem).
    pub fn trust_pem_on_loopback(mut self, pem: &[u8]) -> Result<Self> {
        self.loopback_roots.extend(certificates(pem)?);
        Ok(self)
    }

    /// Where metrics of operations and connections go, such as `&opentelemetry::global::meter_provider()`.
    #[cfg(feature = "otel")]
    pub fn meter_provider(mut self, provider: &dyn opentelemetry::metrics::MeterProvider) -> Self {
        let telemetry = self.telemetry.unwrap_or_default();
        self.telemetry = Some(telemetry.meter_provider(provider));
        self
    }

    /// Where spans of operations go, such as `&opentelemetry::global::tracer_provider()`. A span's parent is the
    /// OpenTelemetry context of the call, also of requests that are made by tasks for it.
    #[cfg(feature = "otel")]
    pub fn tracer_provider<P>(mut self, provider: &P) -> Self
    where
        P: opentelemetry::trace::TracerProvider,
        P::Tracer: Send + Sync + 'static,
        <P::Tracer as opentelemetry::trace::Tracer>::Span: Send + Sync + 'static,
    {
        let telemetry = self.telemetry.unwrap_or_default();
        self.telemetry = Some(telemetry.tracer_provider(provider));
        self
    }

    /// The builder of the client's own runtime; an error beside a runtime that is given.
    fn own_runtime(&mut self) -> Result<CosmosDriverRuntimeBuilder> {
        #[cfg(feature = "otel")]
        let telemetry = self.telemetry.take();
        #[cfg(not(feature = "otel"))]
        let telemetry: Option<CosmosDriverRuntimeBuilder> = None;
        match (&self.runtime, telemetry) {
            (Some(_), Some(_)) => Err(Error::invalid(
                "metrics and spans are the runtime's: give their providers to its builder \
                 (`CosmosDriverRuntimeBuilder::meter_provider`, `tracer_provider`), or let the client have a runtime \
                 of its own",
            )),
            (_, telemetry) => Ok(telemetry.unwrap_or_default()),
        }
    }

    /// Makes the client. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the endpoint is not a URL, a setting or an environment variable is
    /// invalid, the caller is not in a tokio runtime, or a trusted root or telemetry provider is given together with a
    /// runtime, which has its own.
    pub fn build(mut self) -> Result<CosmosClient> {
        let own = self.own_runtime()?;
        let endpoint: Endpoint = self.endpoint.parse().map_err(configuration)?;
        let has_roots = !self.roots.is_empty() || !self.loopback_roots.is_empty();
        let runtime = match self.runtime {
            Some(_) if has_roots => {
                return Err(Error::invalid(
                    "roots belong to the runtime that makes the connections: give them to its builder \
                     (`CosmosDriverRuntimeBuilder::trust_root`), or let the client have a runtime of its own",
                ));
            }
            Some(runtime) => runtime,
            None => {
                let mut builder = own;
                for root in self.roots {
                    builder = builder.trust_root(root);
                }
                for root in self.loopback_roots {
                    builder = builder.trust_root_on_loopback(root);
                }
                builder.build().map_err(configuration)?
            }
        };
        let driver = CosmosDriver::new(runtime, endpoint, self.credential.0, self.options);
        Ok(CosmosClient::over(driver.map_err(configuration)?))
    }
}

/// The content of a file that the caller named.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::invalid(format!("the certificate {} cannot be read: {error}", path.display()))
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => {
            Err(Error::invalid("the PEM text holds no certificate: expected BEGIN CERTIFICATE"))
        }
        Err(error) => Err(Error::invalid(format!("the PEM text cannot be read: {error}"))),
    }
}
