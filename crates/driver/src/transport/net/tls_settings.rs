//! The TLS settings that connections share.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;

use super::tls;
use crate::exchange::{Endpoint, HttpError};
use crate::system::Clock;
use crate::transport::{HttpClientConfig, HttpVersions};

/// A cache of TLS configurations, by roots, versions of HTTP and certificate checks.
#[derive(Default)]
pub(super) struct TlsSettings(ArcSwap<Vec<SharedTls>>);

/// One TLS configuration. Failures are not cached: certificates may be mounted later.
#[derive(Clone)]
struct SharedTls {
    accept_invalid_certs: bool,
    roots: Vec<CertificateDer<'static>>,
    versions: HttpVersions,
    made: Arc<rustls::ClientConfig>,
    /// When the platform's roots were looked at.
    made_at: Instant,
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

impl TlsSettings {
    /// The settings for a connection that is made now.
    pub(super) fn for_connection(
        &self,
        endpoint: &Endpoint,
        config: &HttpClientConfig,
    ) -> Result<Arc<rustls::ClientConfig>, HttpError> {
        self.at(Clock::now(), endpoint, config, tls::client_config)
    }

    fn at(
        &self,
        now: Instant,
        endpoint: &Endpoint,
        config: &HttpClientConfig,
        make: impl FnOnce(
            HttpVersions,
            &[CertificateDer<'static>],
            bool,
        ) -> Result<Arc<rustls::ClientConfig>, HttpError>,
    ) -> Result<Arc<rustls::ClientConfig>, HttpError> {
        let accepts_any = config.accepts_any_certificate_of(endpoint);
        let roots = config.roots_for(endpoint);
        let shared = self.0.load();
        let known = shared.iter().find(|it| it.is_for(config, &roots, accepts_any));
        if let Some(known) = known
            && now.saturating_duration_since(known.made_at) < tls::ROOTS_LIFETIME
        {
            return Ok(Arc::clone(&known.made));
        }
        // Here, and so now and then for each such configuration and not for each connection.
        if accepts_any {
            tracing::warn!(%endpoint, "certificates of emulators are not checked, as the settings say");
        } else if config.accept_invalid_certs {
            tracing::warn!(%endpoint, "certificates are checked although the settings say otherwise: \
                the endpoint is neither this machine nor among the named emulator hosts");
        }
        // Outside `rcu`, whose closure may run several times: reading the roots is slow.
        let made = make(config.versions, &roots, accepts_any)?;
        // Of two threads that make one at once, the last one's stays: they are alike.
        self.0.rcu(|all| {
            let mut all = Vec::clone(all);
            all.retain(|shared| !shared.is_for(config, &roots, accepts_any));
            all.push(SharedTls {
                accept_invalid_certs: accepts_any,
                roots: roots.clone(),
                versions: config.versions,
                made: Arc::clone(&made),
                made_at: now,
            });
            all
        });
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{HttpErrorKind, RequestSentStatus};
    use crate::transport::net::factory::tests::plain_config;

    /// A process that started before its certificates were mounted never connected.
    #[test]
    fn tls_that_could_not_be_set_up_is_set_up_again() {
        let (settings, config, now) = (TlsSettings::default(), plain_config(), Clock::now());
        let endpoint = "https://contoso.documents.azure.com".parse().unwrap();
        let fails = |_, _: &[CertificateDer<'static>], _| {
            Err(HttpError::new(HttpErrorKind::Tls, RequestSentStatus::NotSent, "no root is known"))
        };
        let made = tls::client_config(config.versions, &[], true).unwrap();
        let makes = |_, _: &[CertificateDer<'static>], _| Ok(Arc::clone(&made));
        assert!(settings.at(now, &endpoint, &config, fails).is_err());
        assert!(settings.at(now, &endpoint, &config, makes).is_ok());
        assert!(settings.at(now, &endpoint, &config, fails).is_ok(), "it is kept");
        let later = now + tls::ROOTS_LIFETIME;
        assert!(settings.at(later, &endpoint, &config, fails).is_err(), "it is made again");
    }
}
